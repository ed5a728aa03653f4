package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/hooks"
)

const (
	// hookFolder is where KubeVirt mounts the folder of a sidecar's socket.
	hookFolder = "/var/run/kubevirt-hooks"

	// maxSocketPath is the longest path in bytes that a unix socket can have
	// (Linux include/uapi/linux/un.h, sun_path less the NUL).
	maxSocketPath = 107

	// answerWithin bounds the question whether somebody listens on a socket.
	answerWithin = time.Second

	// writable asks access(2) for permission to write.
	writable = 2
)

// lookAtSockets looks at the folder of the hooks' sockets as a sidecar sees it,
// or as virt-launcher does, with a folder for each sidecar.
func lookAtSockets(folder, container string) *doctor.Sockets {
	s := &doctor.Sockets{Folder: folder}
	if container != "" {
		s.Name = hooks.SocketName(container)
		s.TooLong = len(filepath.Join(folder, s.Name)) > maxSocketPath
	}
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Missing = true
		return s
	case err != nil:
		s.Problem = fmt.Sprintf("the folder of the sockets cannot be listed: %v", err)
		return s
	}
	sidecars := false
	for _, entry := range entries {
		if !entry.IsDir() {
			s.Files = append(s.Files, lookAtSocket(folder, entry.Name(), entry.Type()))
			continue
		}
		sidecars = true
		below, err := os.ReadDir(filepath.Join(folder, entry.Name()))
		if err != nil {
			s.Problem = fmt.Sprintf("the sockets of %s cannot be listed: %v", entry.Name(), err)
			return s
		}
		for _, inner := range below {
			s.Files = append(s.Files, lookAtSocket(folder, filepath.Join(entry.Name(), inner.Name()), inner.Type()))
		}
	}
	// virt-launcher only reads; a sidecar makes its socket there.
	if err := syscall.Access(folder, writable); err != nil && !sidecars {
		s.Problem = fmt.Sprintf("no socket can be made in %s: %v", folder, err)
	}
	return s
}

func lookAtSocket(folder, name string, mode fs.FileMode) doctor.SocketFile {
	file := doctor.SocketFile{Path: name, Socket: mode&fs.ModeSocket != 0}
	if !file.Socket {
		return file
	}
	conn, err := net.DialTimeout("unix", filepath.Join(folder, name), answerWithin)
	file.Answers = err == nil && conn.Close() == nil
	return file
}
