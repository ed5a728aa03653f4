package host

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// descriptor is an open directory or file of this machine. A lookup in it takes one system
// call, where a path takes one per component.
type descriptor int

// dirOpener returns a function that opens directories under one, which stays open. No component
// of their paths may be a symbolic link (openat2(2); Linux 5.6).
func dirOpener(top string) func(name string) (directory, error) {
	at, failed := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return func(name string) (directory, error) {
		if failed != nil {
			return nil, failed
		}

		fd, err := unix.Openat2(at, name, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})

		return descriptor(fd), err
	}
}

func (d descriptor) read(name string, into []byte) (int, error) {
	fd, err := unix.Openat(int(d), name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}

	n, err := unix.Pread(fd, into, 0) // fails for a pipe, a socket and a directory
	return n, errors.Join(err, unix.Close(fd))
}

func (d descriptor) link(name string, into []byte) (int, error) {
	return unix.Readlinkat(int(d), name, into)
}

func (d descriptor) entry(name string) (entry, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(d), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return entry{}, err
	}

	var mode fs.FileMode
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode = fs.ModeDir
	case unix.S_IFLNK:
		mode = fs.ModeSymlink
	default:
		mode = fs.ModeIrregular
	}

	return entry{mode: mode, size: stat.Size}, nil
}

func (d descriptor) list() ([]string, error) {
	fd, err := unix.Openat(int(d), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	dir := os.NewFile(uintptr(fd), ".")
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, dir.Close())
}

func (d descriptor) close() error { return unix.Close(int(d)) }
