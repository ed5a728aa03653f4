package env

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
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
	fsys  fs.FS
	lists map[string]listing // by directory
}

// listing is a directory as it was when first seen.
type listing struct {
	entries []fs.DirEntry // by name
	err     error
}

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, lists: map[string]listing{}}
}

// list is the entries of a directory, by name. The error is fs.ErrNotExist
// when it or a directory above it is absent.
func (t *tree) list(dir string) ([]fs.DirEntry, error) {
	if known, ok := t.lists[dir]; ok {
		return known.entries, known.err
	}
	entries, err := t.readDir(dir)
	t.lists[dir] = listing{entries, err}
	return entries, err
}

func (t *tree) readDir(dir string) ([]fs.DirEntry, error) {
	if dir != "." {
		entry, err := t.entry(dir)
		switch {
		case err != nil:
			return nil, err
		case entry.Type()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("%s is a symbolic link", dir)
		case !entry.IsDir():
			return nil, fmt.Errorf("%s is not a directory", dir)
		}
	}
	entries, err := fs.ReadDir(t.fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return entries, nil
}

// entry is the entry of a path in its directory.
func (t *tree) entry(name string) (fs.DirEntry, error) {
	entries, err := t.list(path.Dir(name))
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearchFunc(entries, path.Base(name), func(e fs.DirEntry, base string) int {
		return strings.Compare(e.Name(), base)
	})
	if !found {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return entries[i], nil
}

// file is the content of a regular file without the white space around it.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.TrimSpace(content), err
}

// raw is the content of a regular file.
func (t *tree) raw(name string) (string, error) {
	entry, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if !entry.Type().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	if len(content) > maxFileBytes {
		return "", fmt.Errorf("%s is too large for a file of sysfs", name)
	}
	return string(content), nil
}

// link is the path that a symbolic link leads to, from the root of the tree.
// Nothing need be there.
func (t *tree) link(name string) (string, error) {
	entry, err := t.entry(name)
	if err != nil {
		return "", err
	}
	if entry.Type()&fs.ModeSymlink == 0 {
		return "", fmt.Errorf("%s is not a symbolic link", name)
	}
	text, err := fs.ReadLink(t.fsys, name)
	if err != nil {
		return "", fmt.Errorf("read link: %w", err)
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
