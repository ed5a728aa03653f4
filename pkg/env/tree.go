package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// maxFileBytes bounds what is read of one file. The kernel bounds an attribute
// at a page (Documentation/filesystems/sysfs.rst); pages go up to 64 KiB.
const maxFileBytes = 64 << 10

// maxLinkBytes bounds the text of a link: PATH_MAX of include/uapi/linux/limits.h.
const maxLinkBytes = 4096

// tree reads a sysfs tree. It never lets the file system follow a symbolic
// link: it reads the link's text, resolves it by name, and descends through
// real directories only. sysfs needs no more than that, so a loop of links
// cannot hang it and no path leaves the root, whatever the file system does
// (fstest.MapFS overflows the stack on a loop).
type tree struct {
	fsys fs.FS
	dirs map[string]error // what isDir has found

	entered map[string]directory
	content bytes.Buffer
}

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, dirs: map[string]error{}, entered: map[string]directory{}}
}

// enter opens a directory, so that what is read in it is not looked up through
// each directory above it, until leave closes it. The error is fs.ErrNotExist
// when it is absent.
func (t *tree) enter(dir string) error {
	if err := t.isDir(dir); err != nil {
		return err
	}
	from, ok := t.fsys.(directory)
	if !ok {
		return nil // a file system in memory has every path at hand
	}
	entered, err := from.open(dir)
	if err != nil {
		return cause(err)
	}
	t.entered[dir] = entered
	return nil
}

// leave closes a directory, if it was entered.
func (t *tree) leave(dir string) error {
	entered, ok := t.entered[dir]
	if !ok {
		return nil
	}
	delete(t.entered, dir)
	return entered.Close()
}

// close leaves all that was entered.
func (t *tree) close() error {
	var errs []error
	for dir := range t.entered {
		errs = append(errs, t.leave(dir))
	}
	return errors.Join(errs...)
}

// at is the file system to read a path in, and the path there.
func (t *tree) at(name string) (fs.FS, string) {
	if entered, ok := t.entered[path.Dir(name)]; ok {
		return entered, path.Base(name)
	}
	return t.fsys, name
}

// list is the entries of a directory, by name. The error is fs.ErrNotExist
// when it or a directory above it is absent.
func (t *tree) list(dir string) ([]fs.DirEntry, error) {
	if err := t.isDir(dir); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(t.fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("list: %w", cause(err))
	}
	return entries, nil
}

// isDir is nil for a real directory below real directories.
func (t *tree) isDir(dir string) error {
	if dir == "." {
		return nil
	}
	known, ok := t.dirs[dir]
	if !ok {
		known = t.lookAtDir(dir)
		t.dirs[dir] = known
	}
	return known
}

func (t *tree) lookAtDir(dir string) error {
	mode, err := t.mode(dir)
	switch {
	case err != nil:
		return err
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", dir)
	case !mode.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return nil
}

// mode is what stands at a path. The directory around it is not listed: one of
// a device has some eighty files, of which a few are read.
func (t *tree) mode(name string) (fs.FileMode, error) {
	if err := t.isDir(path.Dir(name)); err != nil {
		return 0, err
	}
	fsys, at := t.at(name)
	info, err := fs.Lstat(fsys, at)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, cause(err))
	}
	return info.Mode(), nil
}

// file is the content of a regular file without the white space around it.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.TrimSpace(content), err
}

// raw is the content of a regular file.
func (t *tree) raw(name string) (string, error) {
	mode, err := t.mode(name)
	if err != nil {
		return "", err
	}
	if !mode.IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	fsys, at := t.at(name)
	f, err := fsys.Open(at)
	if err != nil {
		return "", fmt.Errorf("read: %w", cause(err))
	}
	defer f.Close()
	t.content.Reset()
	if _, err := t.content.ReadFrom(io.LimitReader(f, maxFileBytes+1)); err != nil {
		return "", fmt.Errorf("read: %w", cause(err))
	}
	if t.content.Len() > maxFileBytes {
		return "", fmt.Errorf("%s is too large for a file of sysfs", name)
	}
	return t.content.String(), nil
}

// link is the path that a symbolic link leads to, from the root of the tree.
// Nothing need be there.
func (t *tree) link(name string) (string, error) {
	mode, err := t.mode(name)
	if err != nil {
		return "", err
	}
	if mode&fs.ModeSymlink == 0 {
		return "", fmt.Errorf("%s is not a symbolic link", name)
	}
	fsys, at := t.at(name)
	text, err := fs.ReadLink(fsys, at)
	if err != nil {
		return "", fmt.Errorf("read link: %w", cause(err))
	}
	if len(text) > maxLinkBytes {
		return "", fmt.Errorf("%s is a link with too long a text", name)
	}
	// The directories of name are real ones, mode has seen to that, so that
	// ".." means the same by name as in the file system.
	target := path.Join(path.Dir(name), text)
	if path.IsAbs(text) || !fs.ValidPath(target) {
		return "", fmt.Errorf("%s links to a path outside the tree", name)
	}
	return target, nil
}

// cause is an error without the path that was asked for, which a Problem names
// and which here may be the last step of it only.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
