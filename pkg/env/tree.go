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

// maxFileBytes bounds a file. The kernel limits an attribute to one page
// (Documentation/filesystems/sysfs.rst), and pages have up to 64 KiB.
const maxFileBytes = 64 << 10

// maxLinkBytes bounds the target of a link: PATH_MAX of include/uapi/linux/limits.h.
const maxLinkBytes = 4096

// tree reads a sysfs tree. It never lets the file system follow a symbolic
// link, but reads the link's target, resolves it by name, and descends through
// real directories only. sysfs needs no more than that. So a loop of links cannot
// hang it and no path leaves the root, whatever the file system does
// (fstest.MapFS overflows the stack on a loop).
type tree struct {
	fsys    fs.FS
	dirs    map[string]treeDir // by path
	open    int                // the number of open directories in dirs
	content bytes.Buffer
}

// treeDir is a real directory whose parents are real directories, open if it is
// on this machine; or err says why it cannot be read.
type treeDir struct {
	fsys fs.FS
	path string // in fsys
	err  error
}

// maxOpen bounds the open directories; files in other directories are looked up
// from an open one above them. The default limit for a process is 1024 open files
// (Linux include/uapi/linux/fs.h, INR_OPEN_CUR).
const maxOpen = 256

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, dirs: map[string]treeDir{".": {fsys: fsys, path: "."}}}
}

// dir returns a directory. The error is fs.ErrNotExist when it or one above it is
// absent.
func (t *tree) dir(name string) (treeDir, error) {
	d, seen := t.dirs[name]
	if !seen {
		d = t.openDir(name)
		t.dirs[name] = d
	}
	return d, d.err
}

func (t *tree) openDir(name string) treeDir {
	e, err := t.entry(name)
	switch {
	case err != nil:
		return treeDir{err: err}
	case e.mode&fs.ModeSymlink != 0:
		return treeDir{err: fmt.Errorf("%s is a symbolic link", name)}
	case !e.mode.IsDir():
		return treeDir{err: fmt.Errorf("%s is not a directory", name)}
	}
	from, ok := e.fsys.(directory)
	if !ok || t.open == maxOpen {
		return treeDir{fsys: e.fsys, path: e.path}
	}
	opened, err := from.open(e.path)
	if err != nil {
		return treeDir{err: fmt.Errorf("%s: %w", name, cause(err))}
	}
	t.open++
	return treeDir{fsys: opened, path: "."}
}

// close closes the open directories and clears the cache.
func (t *tree) close() error {
	var errs []error
	for name, d := range t.dirs {
		if opened, ok := d.fsys.(directory); ok && name != "." && d.path == "." {
			errs = append(errs, opened.Close())
		}
	}
	*t = *newTree(t.fsys)
	return errors.Join(errs...)
}

// entry is a file, directory or link of the tree.
type entry struct {
	fsys fs.FS
	path string // in fsys
	mode fs.FileMode
	size int64
}

// entry returns the entry at a path. It does not list the directory, because that
// of a device has about 80 files, of which few are read.
func (t *tree) entry(name string) (entry, error) {
	dir, err := t.dir(path.Dir(name))
	if err != nil {
		return entry{}, err
	}
	at := path.Base(name)
	if dir.path != "." {
		at = dir.path + "/" + at
	}
	info, err := fs.Lstat(dir.fsys, at)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", name, cause(err))
	}
	return entry{dir.fsys, at, info.Mode(), info.Size()}, nil
}

// list returns the entries of a directory, sorted by name. The error is
// fs.ErrNotExist when it or a directory above it is absent.
func (t *tree) list(name string) ([]fs.DirEntry, error) {
	dir, err := t.dir(name)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(dir.fsys, dir.path)
	if err != nil {
		return nil, fmt.Errorf("list: %w", cause(err))
	}
	return entries, nil
}

// file returns the content of a regular file without surrounding whitespace.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.TrimSpace(content), err
}

// raw returns the content of a regular file.
func (t *tree) raw(name string) (string, error) {
	e, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if !e.mode.IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := e.fsys.Open(e.path)
	if err != nil {
		return "", fmt.Errorf("read: %w", cause(err))
	}
	defer f.Close()
	t.content.Reset()
	if _, err := t.content.ReadFrom(io.LimitReader(f, maxFileBytes+1)); err != nil {
		return "", fmt.Errorf("read: %w", cause(err))
	}
	if t.content.Len() > maxFileBytes {
		return "", fmt.Errorf("%s is too large: more than %d bytes", name, maxFileBytes)
	}
	return t.content.String(), nil
}

// link returns the target of a symbolic link as a path from the root of the tree.
// The target need not exist.
func (t *tree) link(name string) (string, error) {
	e, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if e.mode&fs.ModeSymlink == 0 {
		return "", fmt.Errorf("%s is not a symbolic link", name)
	}
	text, err := fs.ReadLink(e.fsys, e.path)
	if err != nil {
		return "", fmt.Errorf("read link: %w", cause(err))
	}
	if len(text) > maxLinkBytes {
		return "", fmt.Errorf("the target of %s is too long: more than %d bytes", name, maxLinkBytes)
	}
	// entry has checked that the parents of name are real directories, so ".."
	// means the same by name as in the file system.
	target := path.Join(path.Dir(name), text)
	if path.IsAbs(text) || !fs.ValidPath(target) {
		return "", fmt.Errorf("%s links to a path outside the tree", name)
	}
	return target, nil
}

// cause strips the path from an error, because a Problem names the whole path and
// the error may have only its last component.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
