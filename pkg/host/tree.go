package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxFileBytes bounds a file. The kernel limits an attribute to one page
// (Documentation/filesystems/sysfs.rst), and pages have up to 64 KiB.
const maxFileBytes = 64 << 10

// maxLinkBytes bounds the target of a link: PATH_MAX of include/uapi/linux/limits.h.
const maxLinkBytes = 4096

// tree reads a sysfs tree. It never lets the file system follow a symbolic link, but reads
// the link's target, resolves it by name, and descends through real directories only: sysfs
// needs no more. So no path leaves the root, and a loop of links cannot hang it
// (fstest.MapFS overflows the stack on one).
//
// On this machine it reads by descriptors. After a failure it reads step by step, to find
// the cause.
type tree struct {
	fsys fs.FS
	top  *descriptor        // of fsys; nil where it has none
	dirs map[string]treeDir // by path
	open int                // the number of open directories in dirs
	data []byte             // buffer of reads
}

// treeDir is a real directory whose parents are real directories, or the error of reading
// it.
type treeDir struct {
	at  *descriptor // nil where it is not open
	err error
}

// maxOpen bounds the open directories. The default limit for a process is 1024 open
// files (Linux include/uapi/linux/fs.h, INR_OPEN_CUR).
const maxOpen = 256

func newTree(fsys fs.FS) *tree {
	t := &tree{fsys: fsys, dirs: map[string]treeDir{}, data: make([]byte, maxLinkBytes+1)}
	if d, ok := fsys.(*directory); ok {
		t.top = d.top
	}
	return t
}

// dir returns a directory. The error is fs.ErrNotExist when it or one above it is absent.
func (t *tree) dir(name string) (treeDir, error) {
	d, seen := t.dirs[name]
	if !seen {
		d = t.openDir(name)
		t.dirs[name] = d
	}
	return d, d.err
}

func (t *tree) openDir(name string) treeDir {
	if t.top == nil {
		return treeDir{err: t.checkDir(name)}
	}
	if t.open >= maxOpen {
		if err := t.close(); err != nil {
			return treeDir{err: err}
		}
	}
	at, err := t.top.dir(name)
	if err != nil {
		return treeDir{err: t.checkDir(name)}
	}
	t.open++
	return treeDir{at: &at}
}

// checkDir returns an error if a directory or one above it is not a real directory.
func (t *tree) checkDir(name string) error {
	if name == "." {
		return nil
	}
	switch e, err := t.entry(name); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case err != nil:
		return err
	case e.mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", name)
	case !e.mode.IsDir():
		return fmt.Errorf("%s is not a directory", name)
	}
	return nil
}

// close closes the open directories. The tree stays usable.
func (t *tree) close() error {
	var errs []error
	for _, d := range t.dirs {
		if d.at != nil {
			errs = append(errs, d.at.close())
		}
	}
	clear(t.dirs)
	t.open = 0
	return errors.Join(errs...)
}

// entry is a file, directory or link of the tree.
type entry struct {
	mode fs.FileMode // its type
	size int64
}

// entry returns the entry at a path. It does not list the directory: that of a device has
// about 80 files.
func (t *tree) entry(name string) (entry, error) {
	dir, err := t.dir(path.Dir(name))
	if err != nil {
		return entry{}, err
	}
	if dir.at != nil {
		if e, err := dir.at.entry(path.Base(name)); isCertain(err) {
			return e, err
		}
	}
	info, err := fs.Lstat(t.fsys, name)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", name, WithoutPath(err))
	}
	return entry{info.Mode().Type(), info.Size()}, nil
}

// isCertain reports whether the result of a descriptor is final: success, or no such file.
func isCertain(err error) bool { return err == nil || errors.Is(err, fs.ErrNotExist) }

// list returns the names in a directory, sorted. The error is that of dir.
func (t *tree) list(name string) ([]string, error) {
	dir, err := t.dir(name)
	if err != nil {
		return nil, err
	}
	if dir.at != nil {
		if names, err := dir.at.list(); err == nil {
			return names, nil
		}
	}
	entries, err := fs.ReadDir(t.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("list: %w", WithoutPath(err))
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// file returns the content of a regular file without surrounding whitespace.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.TrimSpace(content), err
}

// raw returns the content of a regular file.
func (t *tree) raw(name string) (string, error) {
	dir, err := t.dir(path.Dir(name))
	if err != nil {
		return "", err
	}
	if dir.at != nil {
		if content, err := t.read(dir.at, path.Base(name)); isCertain(err) {
			return content, err
		}
	}
	e, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if !e.mode.IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("read: %w", WithoutPath(err))
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("read: %w", WithoutPath(err))
	}
	if len(content) > maxFileBytes {
		return "", fmt.Errorf("%s is too large: more than %d bytes", name, maxFileBytes)
	}
	return string(content), nil
}

// read reads a file of an open directory.
func (t *tree) read(dir *descriptor, name string) (string, error) {
	f, err := dir.file(name)
	if err != nil {
		return "", err
	}
	n, err := f.read(t.data)
	return string(t.data[:n]), errors.Join(err, f.close())
}

// link returns the target of a symbolic link as a path from the root of the tree.
// The target need not exist.
func (t *tree) link(name string) (string, error) {
	dir, err := t.dir(path.Dir(name))
	if err != nil {
		return "", err
	}
	if dir.at != nil {
		n, err := dir.at.link(path.Base(name), t.data)
		if err == nil {
			return resolve(name, string(t.data[:n]))
		}
		if isCertain(err) {
			return "", err
		}
	}
	e, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if e.mode&fs.ModeSymlink == 0 {
		return "", fmt.Errorf("%s is not a symbolic link", name)
	}
	text, err := fs.ReadLink(t.fsys, name)
	if err != nil {
		return "", fmt.Errorf("read link: %w", WithoutPath(err))
	}
	return resolve(name, text)
}

// resolve returns the target of a link by name. Its parents are real directories, so ".."
// means the same as in the file system.
func resolve(name, text string) (string, error) {
	if len(text) > maxLinkBytes {
		return "", fmt.Errorf("the target of %s is too long: more than %d bytes", name, maxLinkBytes)
	}
	target := path.Join(path.Dir(name), text)
	if path.IsAbs(text) || !fs.ValidPath(target) {
		return "", fmt.Errorf("%s links to a path outside the tree", name)
	}
	return target, nil
}

// WithoutPath strips the path from an error of a file, for messages that have it or must not
// show a temporary one.
func WithoutPath(err error) error {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at):
		return at.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
