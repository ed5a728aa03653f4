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
	fsys    fs.FS
	dirs    map[string]known // by path
	open    int              // of these, those that are open
	content bytes.Buffer
}

// known is a directory that was looked at: a real one below real ones, open if
// it is one of this machine, or why it is none.
type known struct {
	fsys fs.FS
	path string // in fsys
	err  error
}

// in is the path of an entry of the directory, in its fsys.
func (k known) in(base string) string {
	if k.path == "." {
		return base
	}
	return k.path + "/" + base
}

// maxOpen bounds the directories that are held open; what is in others is looked
// up through those above. A process may have 1024 files where nobody has set
// another limit (Linux include/uapi/linux/fs.h, INR_OPEN_CUR).
const maxOpen = 256

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, dirs: map[string]known{".": {fsys: fsys, path: "."}}}
}

// dir is a directory. The error is fs.ErrNotExist when it or one above it is
// absent.
func (t *tree) dir(name string) (known, error) {
	k, seen := t.dirs[name]
	if !seen {
		k = t.lookAt(name)
		t.dirs[name] = k
	}
	return k, k.err
}

func (t *tree) lookAt(name string) known {
	e, err := t.entry(name)
	switch {
	case err != nil:
		return known{err: err}
	case e.mode&fs.ModeSymlink != 0:
		return known{err: fmt.Errorf("%s is a symbolic link", name)}
	case !e.mode.IsDir():
		return known{err: fmt.Errorf("%s is not a directory", name)}
	}
	from, ok := e.fsys.(directory)
	if !ok || t.open == maxOpen {
		return known{fsys: e.fsys, path: e.path}
	}
	opened, err := from.open(e.path)
	if err != nil {
		return known{err: fmt.Errorf("%s: %w", name, cause(err))}
	}
	t.open++
	return known{fsys: opened, path: "."}
}

// close closes the directories that were opened, and forgets all.
func (t *tree) close() error {
	var errs []error
	for name, k := range t.dirs {
		if opened, ok := k.fsys.(directory); ok && name != "." && k.path == "." {
			errs = append(errs, opened.Close())
		}
	}
	*t = *newTree(t.fsys)
	return errors.Join(errs...)
}

// entry is what stands at a path, and where it is read.
type entry struct {
	fsys fs.FS
	path string // in fsys
	mode fs.FileMode
}

// entry looks at a path. The directory around it is not listed: one of a device
// has some eighty files, of which a few are read.
func (t *tree) entry(name string) (entry, error) {
	dir, err := t.dir(path.Dir(name))
	if err != nil {
		return entry{}, err
	}
	at := dir.in(path.Base(name))
	info, err := fs.Lstat(dir.fsys, at)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", name, cause(err))
	}
	return entry{dir.fsys, at, info.Mode()}, nil
}

// list is the entries of a directory, by name. The error is fs.ErrNotExist
// when it or a directory above it is absent.
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

// file is the content of a regular file without the white space around it.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.TrimSpace(content), err
}

// raw is the content of a regular file.
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
		return "", fmt.Errorf("%s is too large for a file of sysfs", name)
	}
	return t.content.String(), nil
}

// link is the path that a symbolic link leads to, from the root of the tree.
// Nothing need be there.
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
		return "", fmt.Errorf("%s is a link with too long a text", name)
	}
	// The directories of name are real ones, entry has seen to that, so that
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
