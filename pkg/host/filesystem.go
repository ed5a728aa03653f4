package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"hook-sidecar/pkg/words"
)

// fileSystem is a read-only file system in memory: a snapshot, or a sysfs that Sysfs makes. It
// follows no link.
type fileSystem struct {
	files  map[string]*file // by path
	kernel string           // release of the host's, "" where its comment does not say
}

// file is a file, a link or a directory. It is its own fs.FileInfo and fs.DirEntry.
type file struct {
	name    string // its last component
	mode    fs.FileMode
	data    string        // the content, or the target of a link
	entries []fs.DirEntry // of a directory, sorted by name
}

const directoryMode = fs.ModeDir | 0o555

func newFileSystem(kernel string) *fileSystem {
	root := &file{name: ".", mode: directoryMode}
	return &fileSystem{files: map[string]*file{".": root}, kernel: kernel}
}

// add adds a file or a link, and the directories above it.
func (s *fileSystem) add(name string, mode fs.FileMode, data string) error {
	if name == "." || !isPath(name) {
		return fmt.Errorf("invalid path %q: want a path from the root of sysfs",
			words.Abridge(name))
	}

	switch known := s.files[name]; {
	case known == nil:
	case known.IsDir():
		return fmt.Errorf("%q is both a file and a directory", words.Abridge(name))
	default:
		return fmt.Errorf("%q appears twice", words.Abridge(name))
	}

	dir, err := s.directory(path.Dir(name))
	if err != nil {
		return err
	}

	s.put(dir, name, &file{mode: mode, data: data})
	return nil
}

// maxPathDepth bounds the components of a path: real ones have about 6, and 2 per PCIe
// switch.
const maxPathDepth = 64

// isPath reports whether a path is clean, inside the tree, and not too long.
func isPath(name string) bool {
	return fs.ValidPath(name) && len(name) <= maxLinkBytes &&
		strings.Count(name, "/") < maxPathDepth
}

// directory returns a directory. It adds it, and those above it, where they are missing.
func (s *fileSystem) directory(name string) (*file, error) {
	if known := s.files[name]; known != nil {
		if !known.IsDir() {
			return nil, fmt.Errorf("%q is both a file and a directory", words.Abridge(name))
		}
		return known, nil
	}

	parent, err := s.directory(path.Dir(name)) // isPath bounds the depth
	if err != nil {
		return nil, err
	}

	added := &file{mode: directoryMode}
	s.put(parent, name, added)
	return added, nil
}

func (s *fileSystem) put(dir *file, name string, f *file) {
	f.name = path.Base(name)
	s.files[name] = f
	dir.entries = append(dir.entries, f)
}

// sort sorts the entries of all directories, once all files are added.
func (s *fileSystem) sort() {
	for _, f := range s.files {
		slices.SortFunc(f.entries, func(x, y fs.DirEntry) int {
			return strings.Compare(x.Name(), y.Name())
		})
	}
}

// Lstat returns information about a file.
func (s *fileSystem) Lstat(name string) (fs.FileInfo, error) {
	f, err := s.find("lstat", name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Open opens a file or a directory. To open a link is an error.
func (s *fileSystem) Open(name string) (fs.File, error) {
	f, err := s.find("open", name)
	switch {
	case err != nil:
		return nil, err
	case f.mode&fs.ModeSymlink != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
	case f.IsDir():
		return &openDirectory{file: f, path: name, left: f.entries}, nil
	}

	return &openFile{file: f, Reader: strings.NewReader(f.data)}, nil
}

// ReadDir lists a directory, sorted by name.
func (s *fileSystem) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := s.find("readdir", name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(f.entries), nil
}

// ReadLink returns the target of a symbolic link.
func (s *fileSystem) ReadLink(name string) (string, error) {
	f, err := s.find("readlink", name)
	if err == nil && f.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}

	if err != nil {
		return "", err
	}

	return f.data, nil
}

// find returns a file, or the error of an operation on it.
func (s *fileSystem) find(operation, name string) (*file, error) {
	if f := s.files[name]; f != nil {
		return f, nil
	}

	err := fs.ErrNotExist
	if !fs.ValidPath(name) {
		err = fs.ErrInvalid
	}

	return nil, &fs.PathError{Op: operation, Path: name, Err: err}
}

func (f *file) Name() string               { return f.name }
func (f *file) Size() int64                { return int64(len(f.data)) }
func (f *file) Mode() fs.FileMode          { return f.mode }
func (f *file) Type() fs.FileMode          { return f.mode.Type() }
func (f *file) ModTime() time.Time         { return time.Time{} }
func (f *file) IsDir() bool                { return f.mode.IsDir() }
func (f *file) Sys() any                   { return nil }
func (f *file) Info() (fs.FileInfo, error) { return f, nil }

// openFile is an open file.
type openFile struct {
	file *file
	*strings.Reader
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.file, nil }
func (o *openFile) Close() error               { return nil }

// openDirectory is an open directory, with the entries that were not read yet.
type openDirectory struct {
	file *file
	path string
	left []fs.DirEntry
}

func (o *openDirectory) Stat() (fs.FileInfo, error) { return o.file, nil }
func (o *openDirectory) Close() error               { return nil }

func (o *openDirectory) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: o.path, Err: errors.New("is a directory")}
}

// ReadDir returns the next n entries, or all with n of 0 or less (fs.ReadDirFile).
func (o *openDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(o.left)
	} else if len(o.left) == 0 {
		return nil, io.EOF
	}

	n = min(n, len(o.left))
	next := slices.Clone(o.left[:n])
	o.left = o.left[n:]
	return next, nil
}
