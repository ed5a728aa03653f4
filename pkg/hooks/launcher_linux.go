package hooks

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// outsidePeer returns the process of the peer as a pidfd, which gets readable when
// the process has ended (pidfd_open(2)); nil when the process is in this PID
// namespace, so in this container. It takes Linux 6.5 (SO_PEERPIDFD).
func outsidePeer(socket *net.UnixConn) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}

	var process *os.File
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || credentials.Pid != 0 { // 0: not in this namespace (unix(7))
			failed = err
			return
		}

		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			failed = err
			return
		}

		if failed = unix.SetNonblock(pidfd, true); failed != nil { // so that Go's runtime polls it
			failed = errors.Join(failed, unix.Close(pidfd))
			return
		}

		process = os.NewFile(uintptr(pidfd), "virt-launcher")
	})

	return process, errors.Join(err, failed)
}

// waitReadable waits until a file is readable, or fails when it is closed.
func waitReadable(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 && err == nil
	})
}
