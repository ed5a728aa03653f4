package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/topology"
)

// maxSnapshotBytes bounds a snapshot file; a machine with 100 devices takes 160 KB.
const maxSnapshotBytes = 16 << 20

// maxPathDepth bounds the components of a path in a snapshot: some 6, and 2
// for each PCIe switch.
const maxPathDepth = 64

// linkArrow stands between the path of a symbolic link and its target, with
// blanks around it.
const linkArrow = " ->"

// OpenSysfs opens what --sysfs names: a directory such as /sys, which no path
// then leaves, or a snapshot file. Close it when done with the file system.
func OpenSysfs(name string) (fs.FS, io.Closer, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("open sysfs: %w", err)
	case info.IsDir():
		dir, err := openDirectory(name)
		if err != nil {
			return nil, nil, fmt.Errorf("open sysfs: %w", err)
		}
		return dir, dir, nil
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("open sysfs: %s is neither a directory nor a snapshot file", name)
	case info.Size() > maxSnapshotBytes:
		return nil, nil, fmt.Errorf("open sysfs: snapshot %s is larger than %d bytes", name, maxSnapshotBytes)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("open sysfs: %w", err)
	}
	fsys, err := ParseSnapshot(data)
	if err != nil {
		return nil, nil, fmt.Errorf("open sysfs: snapshot %s: %w", name, err)
	}
	return fsys, nothingOpen{}, nil
}

// nothingOpen closes a file system that is held in memory.
type nothingOpen struct{}

func (nothingOpen) Close() error { return nil }

// ParseSnapshot reads a snapshot of sysfs: a txtar archive (package
// golang.org/x/tools/txtar) in which "-- path --" is a file and its content
// and "-- path -> target --" a symbolic link. Paths are from the root of sysfs,
// targets relative to the link's directory, and both as short as they can be
// written. What could not have been read from a sysfs is an error that names
// the path: a path given twice or both as file and directory, a link out of
// the snapshot or in a loop.
func ParseSnapshot(data []byte) (fs.FS, error) {
	archive := txtar.Parse(data)
	if len(archive.Files) == 0 {
		return nil, errors.New("no snapshot: there is no line of the form -- path --")
	}
	files := fstest.MapFS{}
	var links []string
	for _, section := range archive.Files {
		name, target, isLink := strings.Cut(section.Name, linkArrow)
		file := &fstest.MapFile{Mode: 0o444, Data: section.Data}
		if isLink {
			target = strings.TrimPrefix(target, " ")
			if err := checkLink(name, target, section.Data); err != nil {
				return nil, err
			}
			file = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
			links = append(links, name)
		}
		if err := addFile(files, name, file); err != nil {
			return nil, err
		}
	}
	for _, name := range links {
		if loops(files, name) {
			return nil, fmt.Errorf("link %q is in a loop or leads through more than %d links", topology.Abridge(name), maxLinks)
		}
	}
	return indexed(files)
}

// snapshot is a snapshot's files with its directories listed once:
// fstest.MapFS goes through all files for each directory that it lists.
type snapshot struct {
	fstest.MapFS
	dirs map[string][]fs.DirEntry // by name
}

// ReadDir lists a directory, by name.
func (s snapshot) ReadDir(dir string) ([]fs.DirEntry, error) {
	if entries, ok := s.dirs[dir]; ok {
		return slices.Clone(entries), nil
	}
	return s.MapFS.ReadDir(dir)
}

// Lstat describes a file, or the symbolic link that it is. Every directory is
// in the map: fstest.MapFS goes through all files for what is not.
func (s snapshot) Lstat(name string) (fs.FileInfo, error) {
	if _, ok := s.MapFS[name]; !ok && name != "." && firstLink(s.MapFS, name) == "" {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return s.MapFS.Lstat(name)
}

func indexed(files fstest.MapFS) (fs.FS, error) {
	s := snapshot{MapFS: files, dirs: map[string][]fs.DirEntry{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		info, err := files.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		dir := path.Dir(name)
		s.dirs[dir] = append(s.dirs[dir], fs.FileInfoToDirEntry(info))
	}
	return s, nil
}

// addFile puts a file and the directories above it into files.
func addFile(files fstest.MapFS, name string, file *fstest.MapFile) error {
	if name == "." || !isPath(name) {
		return fmt.Errorf("%q is no path from the root of sysfs", topology.Abridge(name))
	}
	if known, ok := files[name]; ok && known.Mode.IsDir() {
		return fmt.Errorf("%q is both a file and a directory", topology.Abridge(name))
	} else if ok {
		return fmt.Errorf("%q is given twice", topology.Abridge(name))
	}
	files[name] = file
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		known, ok := files[dir]
		if ok && !known.Mode.IsDir() {
			return fmt.Errorf("%q is both a file and a directory", topology.Abridge(dir))
		}
		if ok {
			break
		}
		files[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o555}
	}
	return nil
}

// isPath tells whether a path is clean, inside the tree, and not overlong.
func isPath(name string) bool {
	return fs.ValidPath(name) && len(name) <= maxLinkBytes && strings.Count(name, "/") < maxPathDepth
}

// checkLink holds links to a form for which fstest.MapFS, which resolves ".."
// by name, and the kernel agree on where they lead.
func checkLink(name, target string, data []byte) error {
	switch {
	case path.IsAbs(target):
		return fmt.Errorf("link %q has an absolute target", topology.Abridge(name))
	case target == "" || path.Clean(target) != target:
		return fmt.Errorf("link %q: %q is not the shortest form of a target", topology.Abridge(name), topology.Abridge(target))
	case !isPath(path.Join(path.Dir(name), target)):
		return fmt.Errorf("link %q leads out of the snapshot", topology.Abridge(name))
	case len(bytes.TrimSpace(data)) > 0:
		return fmt.Errorf("link %q has content", topology.Abridge(name))
	}
	return nil
}

// maxLinks is how many links Linux follows in one path (include/linux/namei.h,
// MAXSYMLINKS).
const maxLinks = 40

// loops reports whether a link takes more than maxLinks links to resolve, or
// becomes overlong on the way, as one that leads below itself does.
// fstest.MapFS follows links without a bound and overflows the stack. A path
// that goes through several links is safe when each of them is: every one that
// is resolved leaves less of the path.
func loops(files fstest.MapFS, name string) bool {
	for steps := 0; steps <= maxLinks && isPath(name); steps++ {
		link := firstLink(files, name)
		if link == "" {
			return false
		}
		name = path.Join(path.Dir(link), string(files[link].Data)) + name[len(link):]
	}
	return true
}

// firstLink is the shortest prefix of a path that is a symbolic link, "" when
// none is.
func firstLink(files fstest.MapFS, name string) string {
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if file := files[name[:i]]; file != nil && file.Mode&fs.ModeSymlink != 0 {
			return name[:i]
		}
	}
	return ""
}
