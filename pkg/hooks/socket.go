package hooks

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// MaxSocketPath is the length in bytes of the longest path of a unix socket:
// sun_path of unix(7) has 108 bytes, the last one for NUL.
const MaxSocketPath = 107

const (
	// socketMode lets any user connect, because virt-launcher need not run as the user of
	// the sidecar: only containers of the pod mount the directory. Connecting takes write
	// permission (unix(7)), which a umask would remove.
	socketMode = 0o666

	// dirMode is the mode of a plugin socket's directory when it is created here.
	dirMode = 0o755

	// probeTimeout bounds the connection attempt to an existing socket.
	probeTimeout = time.Second
)

// maxName is the longest container name that becomes part of a socket's name; a hash
// replaces a longer one. virt-launcher sees the socket as
// /var/run/kubevirt-hooks/NAME/hostdev-NAME.sock: with the hash this fits MaxSocketPath
// even for a name of 63 bytes.
const maxName = 32

// SocketName returns the file name of a container's hook socket. KubeVirt sets
// CONTAINER_NAME to the container's name since v1.6. The file name is unique in the pod,
// because virt-launcher takes two sockets of the same name for one hook (KubeVirt
// pkg/hooks/manager.go, processedSockets): it has the container's name, a hash of a name
// that is long or not a DNS label, or a random part without a name.
func SocketName(containerName string) string {
	part := containerName
	switch {
	case containerName == "":
		part = strings.ToLower(rand.Text()[:6])
	case len(containerName) > maxName || strings.ContainsFunc(containerName, notInLabel):
		sum := sha256.Sum256([]byte(containerName))
		part = hex.EncodeToString(sum[:3])
	}

	return "hostdev-" + part + ".sock"
}

// notInLabel reports whether a character cannot be part of a DNS label (RFC 1123).
func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
}

// socket is a unix socket that this process listens on. It limits the number of open connections.
type socket struct {
	*net.UnixListener
	open    *atomic.Int32 // connections of the server
	path    string
	file    os.FileInfo   // identifies the file when it is removed
	silence time.Duration // after which a connection is dead
}

// openSocket listens on path. It replaces an existing socket only if no process listens on
// it. makeDir creates the directory if needed, but none above it: a missing one is most
// likely a typo.
func openSocket(path string, makeDir bool) (*socket, error) {
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, must be at most %d", path,
			len(path), MaxSocketPath)
	}

	if makeDir {
		if err := os.Mkdir(filepath.Dir(path), dirMode); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create the directory of socket %s: %w", path, err)
		}
	}

	if err := removeStale(path); err != nil {
		return nil, err
	}

	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}

	// Go would remove the path even if it is another file by then.
	listener.SetUnlinkOnClose(false)
	opened := &socket{UnixListener: listener, path: path}
	if opened.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("stat socket %s: %w", path, err), listener.Close())
	}

	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of socket %s: %w", path, err),
			opened.close())
	}

	return opened, nil
}

// removeStale removes a socket that no process listens on, as a killed process
// leaves it. Any other file at path is an error.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for a stale socket: %w", err)
	case found.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("listen on %s: the path is a symbolic link", path)
	case found.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen on %s: the path exists and is not a socket", path)
	}

	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		err = fmt.Errorf("listen on %s: another process listens there: %w", path,
			syscall.EADDRINUSE)
		return errors.Join(err, conn.Close())
	}

	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("check whether a process listens on %s: %w", path, err)
	}

	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket %s: %w", path, err)
	}

	return nil
}

// close stops listening on a socket that no server serves yet, and removes its file.
func (s *socket) close() error {
	return errors.Join(s.remove(), s.UnixListener.Close())
}

// remove removes the socket's file, unless it is gone or was replaced.
func (s *socket) remove() error {
	found, err := os.Lstat(s.path)
	if err == nil && os.SameFile(found, s.file) {
		err = os.Remove(s.path)
	}

	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove socket %s: %w", s.path, err)
	}

	return nil
}
