package host

import (
	"cmp"
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
// needs no more. So no path leaves the root, and a loop of links cannot hang it.
type tree struct {
	fsys fs.FS
	dirs map[string]treeDir // by path
	data []byte             // buffer of reads
}

// directory is a real directory whose parents are real directories: a descriptor on Linux, or a
// path. By path the 16 devices of a call take about three times as long to read. Names have one
// component.
type directory interface {
	entry(name string) (entry, error)
	list() ([]string, error)
	// read reads the beginning of a regular file.
	read(name string, into []byte) (int, error)
	// link reads the beginning of a link's target.
	link(name string, into []byte) (int, error)
	close() error
}

// entry is a file, directory or link of the tree.
type entry struct {
	mode fs.FileMode // its type
	size int64
}

// machineDir is the file system of a directory of this machine. No path leads out of it.
type machineDir struct {
	rootFS
	openDir func(name string) (directory, error) // fails where directories cannot be kept open
	isLive  bool                                 // it is this machine's sysfs
}

// rootFS is implemented by the file system of an os.Root.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadLinkFS
}

// treeDir is a directory, or the error of opening it.
type treeDir struct {
	directory
	err error
}

// maxOpen bounds the open directories. The default limit for a process is 1024 open
// files (Linux include/uapi/linux/fs.h, INR_OPEN_CUR).
const maxOpen = 256

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, dirs: map[string]treeDir{}, data: make([]byte, maxFileBytes+1)}
}

// close closes the open directories. The tree stays usable.
func (t *tree) close() error {
	var errs []error
	for _, d := range t.dirs {
		if d.directory != nil {
			errs = append(errs, d.close())
		}
	}

	clear(t.dirs)
	return errors.Join(errs...)
}

// split divides a path into its directory and the name in it. path.Dir cleans what is clean, which
// would take as long as the lookup of the directory.
func split(name string) (dir, base string) {
	at := strings.LastIndexByte(name, '/')
	return cmp.Or(name[:max(at, 0)], "."), name[at+1:]
}

// entry returns the entry at a path. It does not list the directory: that of a device has
// about 80 files.
func (t *tree) entry(name string) (entry, error) {
	parent, base := split(name)
	dir, err := t.dir(parent)
	if err != nil {
		return entry{}, err
	}

	e, err := dir.entry(base)
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w", name, WithoutPath(err))
	}

	return e, nil
}

// list returns the names in a directory, sorted. The error is that of dir.
func (t *tree) list(name string) ([]string, error) {
	dir, err := t.dir(name)
	if err != nil {
		return nil, err
	}

	names, err := dir.list()
	if err != nil {
		return nil, fmt.Errorf("list: %w", WithoutPath(err))
	}

	return names, nil
}

// file returns the content of a regular file without surrounding whitespace, and without the NUL
// bytes that end files in tarballs which were made with hwloc-gather-topology.
func (t *tree) file(name string) (string, error) {
	content, err := t.raw(name)
	return strings.Trim(content, " \t\r\n\x00"), err
}

// raw returns the content of a regular file.
func (t *tree) raw(name string) (string, error) {
	parent, base := split(name)
	dir, err := t.dir(parent)
	if err != nil {
		return "", err
	}

	n, err := dir.read(base, t.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil:
		if e, err := t.entry(name); err == nil && !e.mode.IsRegular() {
			return "", fmt.Errorf("%s is not a regular file", name)
		}
		return "", fmt.Errorf("read: %w", WithoutPath(err))

	case n > maxFileBytes:
		return "", fmt.Errorf("%s is too large: more than %d bytes", name, maxFileBytes)
	}

	return string(t.data[:n]), nil
}

// link returns the target of a symbolic link as a path from the root of the tree.
// The target need not exist. Its parents are real directories, so ".." means the same as in
// the file system.
func (t *tree) link(name string) (string, error) {
	parent, base := split(name)
	dir, err := t.dir(parent)
	if err != nil {
		return "", err
	}

	n, err := dir.link(base, t.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", err

	// File systems have different errors for a file that is no link, so its kind is looked up.
	case err != nil:
		if e, err := t.entry(name); err == nil && e.mode&fs.ModeSymlink == 0 {
			return "", fmt.Errorf("%s is not a symbolic link", name)
		}
		return "", fmt.Errorf("read link: %w", WithoutPath(err))

	case n > maxLinkBytes:
		return "", fmt.Errorf("the target of %s is too long: more than %d bytes", name,
			maxLinkBytes)
	}

	text := string(t.data[:n])
	target := path.Join(parent, text)
	if path.IsAbs(text) || !fs.ValidPath(target) {
		return "", fmt.Errorf("%s links to a path outside the tree", name)
	}

	return target, nil
}

// dir returns a directory. The error is fs.ErrNotExist when it or one above it is absent.
func (t *tree) dir(name string) (directory, error) {
	d, seen := t.dirs[name]
	if !seen {
		d.directory, d.err = t.openDir(name)
		t.dirs[name] = d
	}

	return d.directory, d.err
}

func (t *tree) openDir(name string) (directory, error) {
	if len(t.dirs) >= maxOpen {
		if err := t.close(); err != nil {
			return nil, err
		}
	}

	if machine, ok := t.fsys.(machineDir); ok {
		// An error does not name its cause, and openat2(2) may be missing.
		if at, err := machine.openDir(name); err == nil {
			return at, nil
		}
	}

	if name == "." {
		return pathDir{t.fsys, name}, nil
	}

	switch e, err := t.entry(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case err != nil:
		return nil, err
	case e.mode&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link", name)
	case !e.mode.IsDir():
		return nil, fmt.Errorf("%s is not a directory", name)
	}

	return pathDir{t.fsys, name}, nil
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

// pathDir is a directory of a file system.
type pathDir struct {
	fsys fs.FS
	name string
}

// path returns the path of a name. path.Join would clean what is clean, which takes longer than the
// lookup.
func (d pathDir) path(name string) string {
	if d.name == "." {
		return name
	}
	return d.name + "/" + name
}

func (d pathDir) entry(name string) (entry, error) {
	info, err := fs.Lstat(d.fsys, d.path(name))
	if err != nil {
		return entry{}, err
	}
	return entry{info.Mode().Type(), info.Size()}, nil
}

func (d pathDir) list() ([]string, error) {
	entries, err := fs.ReadDir(d.fsys, d.name)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}

	return names, err
}

// read opens nothing but regular files: a link would be followed, and a pipe would block.
func (d pathDir) read(name string, into []byte) (int, error) {
	if e, err := d.entry(name); err != nil || !e.mode.IsRegular() {
		return 0, cmp.Or(err, errors.ErrUnsupported)
	}

	f, err := d.fsys.Open(d.path(name))
	if err != nil {
		return 0, err
	}

	defer f.Close()
	n, err := io.ReadFull(f, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}

	return n, err
}

func (d pathDir) link(name string, into []byte) (int, error) {
	text, err := fs.ReadLink(d.fsys, d.path(name))
	return copy(into, text), err
}

func (d pathDir) close() error { return nil }
