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

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/tools/doctor"
)

const (
	// connectTimeout limits the attempt to connect to a socket.
	connectTimeout = time.Second

	// writable is write permission for access(2).
	writable = 2
)

// readSockets lists the directory of the hook sockets: a sidecar's, or virt-launcher's, which has
// a directory per sidecar.
func readSockets(dir, container string) *doctor.Sockets {
	s := &doctor.Sockets{Dir: dir}
	if container != "" {
		s.Name = hooks.SocketName(container)
		s.TooLong = len(filepath.Join(dir, s.Name)) > hooks.MaxSocketPath
	}

	sidecars := false
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			s.Files = append(s.Files, readSocket(dir, name, entry.Type()))
		case name != ".":
			sidecars = true
		}

		return nil
	})

	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Missing = true
	case err != nil:
		s.Problem = fmt.Sprintf("the sockets cannot be listed: %v", err)
	case !sidecars: // virt-launcher only reads; a sidecar creates its socket here
		if err := syscall.Access(dir, writable); err != nil {
			s.Problem = fmt.Sprintf("no socket can be created in %s: %v", dir, err)
		}
	}

	return s
}

func readSocket(dir, name string, mode fs.FileMode) doctor.SocketFile {
	file := doctor.SocketFile{Path: name, Socket: mode&fs.ModeSocket != 0}
	if !file.Socket {
		return file
	}

	conn, err := net.DialTimeout("unix", filepath.Join(dir, name), connectTimeout)
	file.Answers = err == nil && conn.Close() == nil
	return file
}
