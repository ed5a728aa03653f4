package host

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// descriptor is an open directory or file of this machine. A lookup in it takes one system
// call, where a path takes one per component. A single call does not name the cause of a
// failure: after an error other than fs.ErrNotExist, tree reads step by step.
type descriptor int

// openDescriptor opens a directory.
func openDescriptor(name string) (descriptor, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return descriptor(fd), err
}

// dir opens a directory under d. No component of its path may be a symbolic link
// (openat2(2); Linux 5.6).
func (d descriptor) dir(name string) (descriptor, error) {
	fd, err := unix.Openat2(int(d), name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	return descriptor(fd), err
}

// file opens a file of the directory d.
func (d descriptor) file(name string) (descriptor, error) {
	fd, err := unix.Openat(int(d), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	return descriptor(fd), err
}

// read reads a file from its beginning. A pipe, a socket or a directory (pread(2)), and a
// file that is empty or does not fit are errors.
func (d descriptor) read(into []byte) (int, error) {
	n, err := unix.Pread(int(d), into, 0)
	if err == nil && n == 0 {
		err = errors.ErrUnsupported
	}
	return fits(n, into, err)
}

// link reads the target of a symbolic link of the directory d.
func (d descriptor) link(name string, into []byte) (int, error) {
	n, err := unix.Readlinkat(int(d), name, into)
	return fits(n, into, err)
}

func fits(n int, into []byte, err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case n == len(into):
		return 0, errors.ErrUnsupported
	}
	return n, nil
}

// entry returns the type and the size of a file in the directory d.
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

// list returns the names in the directory d, sorted.
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
