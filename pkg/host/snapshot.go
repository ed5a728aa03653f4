package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/gzipped"
	"hook-sidecar/pkg/words"
)

// maxSnapshotBytes bounds a snapshot file; one of 100 devices has 160 KB.
const maxSnapshotBytes = 16 << 20

// maxPathDepth bounds the components of a path: real ones have about 6, and 2 per PCIe
// switch.
const maxPathDepth = 64

// linkArrow separates the path of a symbolic link from " " and its target.
const linkArrow = " ->"

// OpenSysfs opens a sysfs directory such as /sys, which no path can leave and which stays
// open, or a snapshot file.
func OpenSysfs(name string) (fs.FS, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open sysfs: %w", err)
	case info.IsDir():
		root, err := os.OpenRoot(name)
		if err != nil {
			return nil, fmt.Errorf("open sysfs: %w", err)
		}
		return machineDir{root.FS().(rootFS), dirOpener(name), path.Clean(name) == live}, nil

	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open sysfs: %s is neither a directory nor a snapshot file", name)
	case info.Size() > maxSnapshotBytes:
		return nil, fmt.Errorf("open sysfs: snapshot %s is larger than %d bytes", name,
			maxSnapshotBytes)
	}

	var fsys fs.FS
	data, err := os.ReadFile(name)
	if err == nil {
		data, err = gzipped.Decompress(data, maxSnapshotBytes)
	}

	if err == nil {
		fsys, err = ParseSnapshot(data)
	}

	if err != nil {
		return nil, fmt.Errorf("open sysfs: snapshot %s: %w", name, WithoutPath(err))
	}

	return fsys, nil
}

// ParseSnapshot reads a snapshot of sysfs: a txtar archive (package
// golang.org/x/tools/txtar) whose entries are files, "-- path --" and the content, and
// symbolic links, "-- path -> target --". Paths are relative to the root of sysfs, targets
// to the link's directory, and both are in their shortest form. A duplicate, a path that is
// both a file and a directory, a link out of the snapshot is an error that names the path.
// The file system follows no links.
func ParseSnapshot(data []byte) (fs.FS, error) {
	archive := txtar.Parse(data)
	if len(archive.Files) == 0 {
		return nil, errors.New("not a snapshot: no line of the form -- path --")
	}

	files := fstest.MapFS{}
	for _, section := range archive.Files {
		name, target, isLink := strings.Cut(section.Name, linkArrow)
		file := &fstest.MapFile{Mode: 0o444, Data: section.Data}
		if isLink {
			target = strings.TrimPrefix(target, " ")
			if err := checkLink(name, target, section.Data); err != nil {
				return nil, err
			}
			file = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
		}

		if err := addFile(files, name, file); err != nil {
			return nil, err
		}
	}

	return indexed(files, kernelOf(string(archive.Comment)))
}

// snapshot is a file system without the two faults of fstest.MapFS: a loop of links overflows
// its stack, and it searches all files to list a directory and for a missing path.
type snapshot struct {
	files  fstest.MapFS
	infos  map[string]fs.FileInfo   // by path
	dirs   map[string][]fs.DirEntry // by path, sorted by name
	kernel string                   // release of the host's, "" where its comment does not say
}

// Lstat returns information about a file.
func (s snapshot) Lstat(name string) (fs.FileInfo, error) {
	if info, ok := s.infos[name]; ok {
		return info, nil
	}
	return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

// Open opens a file or a directory. To open a link is an error.
func (s snapshot) Open(name string) (fs.File, error) {
	info, err := s.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
	}

	if err != nil {
		return nil, err
	}

	return s.files.Open(name)
}

// ReadDir lists a directory, sorted by name.
func (s snapshot) ReadDir(dir string) ([]fs.DirEntry, error) {
	if _, err := s.Lstat(dir); err != nil {
		return nil, err
	}
	return slices.Clone(s.dirs[dir]), nil
}

// ReadLink returns the target of a symbolic link.
func (s snapshot) ReadLink(name string) (string, error) {
	info, err := s.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}

	if err != nil {
		return "", err
	}

	return string(s.files[name].Data), nil
}

func indexed(files fstest.MapFS, kernel string) (fs.FS, error) {
	files["."] = &fstest.MapFile{Mode: fs.ModeDir | 0o555}
	s := snapshot{
		files: files, infos: map[string]fs.FileInfo{}, dirs: map[string][]fs.DirEntry{},
		kernel: kernel,
	}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		info, err := files.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}

		s.infos[name] = info
		if name != "." {
			dir := path.Dir(name)
			s.dirs[dir] = append(s.dirs[dir], fs.FileInfoToDirEntry(info))
		}
	}

	return s, nil
}

// addFile adds a file and the directories above it to files.
func addFile(files fstest.MapFS, name string, file *fstest.MapFile) error {
	if name == "." || !isPath(name) {
		return fmt.Errorf("invalid path %q: want a path from the root of sysfs",
			words.Abridge(name))
	}

	if known, ok := files[name]; ok && known.Mode.IsDir() {
		return fmt.Errorf("%q is both a file and a directory", words.Abridge(name))
	} else if ok {
		return fmt.Errorf("%q appears twice", words.Abridge(name))
	}

	files[name] = file

	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		known, ok := files[dir]
		if ok && !known.Mode.IsDir() {
			return fmt.Errorf("%q is both a file and a directory", words.Abridge(dir))
		}
		if ok {
			break
		}

		files[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o555}
	}

	return nil
}

// isPath reports whether a path is clean, inside the tree, and not too long.
func isPath(name string) bool {
	return fs.ValidPath(name) && len(name) <= maxLinkBytes &&
		strings.Count(name, "/") < maxPathDepth
}

// checkLink accepts only links that tree, which resolves ".." by name, and the kernel
// resolve to the same path.
func checkLink(name, target string, data []byte) error {
	switch {
	case path.IsAbs(target):
		return fmt.Errorf("link %q has an absolute target", words.Abridge(name))
	case target == "" || path.Clean(target) != target:
		return fmt.Errorf("link %q: target %q is not in its shortest form", words.Abridge(name),
			words.Abridge(target))

	case !isPath(path.Join(path.Dir(name), target)):
		return fmt.Errorf("link %q leads out of the snapshot", words.Abridge(name))
	case len(bytes.TrimSpace(data)) > 0:
		return fmt.Errorf("link %q has content", words.Abridge(name))
	}

	return nil
}
