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
	"syscall"
	"time"
)

const (
	// maxPath is the longest path in bytes that a unix socket can have: 108
	// with the NUL at its end (Linux include/uapi/linux/un.h, sun_path).
	maxPath = 107

	// socketMode lets any user connect. The folder is a volume that only the
	// containers of one pod mount, so it is the wall, and virt-launcher need
	// not run as the user that the sidecar's image or security context names.
	// To connect takes write permission (unix(7)), which a umask takes away.
	socketMode = 0o666

	// folderMode is the mode of a plugin socket's folder when it is made here.
	folderMode = 0o755

	// probeTimeout bounds the question whether somebody answers on a socket
	// that is there already. Connecting does not wait for the peer's process,
	// only for a place in its backlog.
	probeTimeout = time.Second
)

// maxName is the longest container name that becomes part of a socket's name.
// virt-launcher sees the socket in a folder named after the container
// (/var/run/kubevirt-hooks/NAME/hostdev-NAME.sock), which holds the name a
// second time. A longer one is replaced by a hash that fits maxPath even for
// the 63 bytes that a container's name can have.
const maxName = 32

// SocketName returns a file name for the hook socket of a container, from the
// variable CONTAINER_NAME that KubeVirt sets since v1.6. virt-launcher takes
// two sockets of one name for the same hook (KubeVirt pkg/hooks/manager.go,
// processedSockets), so the name is unique in the pod: it holds the
// container's name, or a hash of it where that is no short DNS label, or a
// random part where there is none.
func SocketName(containerName string) string {
	part := containerName
	switch {
	case containerName == "":
		part = randomPart()
	case len(containerName) > maxName || strings.ContainsFunc(containerName, notInLabel):
		sum := sha256.Sum256([]byte(containerName))
		part = hex.EncodeToString(sum[:3])
	}
	return "hostdev-" + part + ".sock"
}

// notInLabel tells what cannot be part of a container's name, which Kubernetes
// holds to be a DNS label (RFC 1123).
func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
}

func randomPart() string {
	var random [3]byte
	rand.Read(random[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(random[:])
}

// socket is a unix socket that this process listens on.
type socket struct {
	path     string
	listener *net.UnixListener
	file     os.FileInfo // to know it again when it is removed
}

// openSocket listens on path. What is there already stays, but for a socket on
// which nobody answers. makeFolder makes the folder when it is absent.
func openSocket(path string, makeFolder bool) (*socket, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, a unix socket's can have %d", path, len(path), maxPath)
	}
	if makeFolder {
		if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
			return nil, fmt.Errorf("make the folder of socket %s: %w", path, err)
		}
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// Go would remove whatever has the path by then, be it ours or not.
	listener.SetUnlinkOnClose(false)
	opened := &socket{path: path, listener: listener}
	if opened.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(fmt.Errorf("look at socket %s: %w", path, err), listener.Close())
	}
	if err := os.Chmod(path, socketMode); err != nil {
		err = fmt.Errorf("open socket %s to other users: %w", path, err)
		return nil, errors.Join(err, listener.Close(), opened.remove())
	}
	return opened, nil
}

// removeStale removes a socket on which nobody answers, as a killed process
// leaves it. Anything else at path is an error, for it is not ours to remove.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for an old socket: %w", err)
	case found.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("listen on %s: a symbolic link is there, not a socket", path)
	case found.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen on %s: a file is there that is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		err = fmt.Errorf("listen on %s: another process answers there: %w", path, syscall.EADDRINUSE)
		return errors.Join(err, conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out whether a process answers on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket %s: %w", path, err)
	}
	return nil
}

// remove removes the socket's file, unless it is gone or another has its place.
func (s *socket) remove() error {
	found, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for our socket: %w", err)
	}
	if !os.SameFile(found, s.file) {
		return nil
	}
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("remove socket %s: %w", s.path, err)
	}
	return nil
}
