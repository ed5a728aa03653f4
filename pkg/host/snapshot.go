package host

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

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// maxSnapshotBytes bounds a snapshot file; one of 100 devices has 160 KB.
const maxSnapshotBytes = 16 << 20

// maxPathDepth bounds the components of a path: real ones have about 6, and 2 per PCIe
// switch.
const maxPathDepth = 64

// linkArrow separates the path of a symbolic link from " " and its target.
const linkArrow = " ->"

// OpenSysfs opens a sysfs directory such as /sys, which no path can leave, or a
// snapshot file. Close the io.Closer when done with the file system.
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
	var fsys fs.FS
	if data, err = env.Decompress(data, maxSnapshotBytes); err == nil {
		fsys, err = ParseSnapshot(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open sysfs: snapshot %s: %w", name, err)
	}
	return fsys, io.NopCloser(nil), nil
}

// ParseSnapshot reads a snapshot of sysfs: a txtar archive (package
// golang.org/x/tools/txtar) whose entries are files, "-- path --" and the content, and
// symbolic links, "-- path -> target --". Paths are relative to the root of sysfs, targets
// to the link's directory, and both are in their shortest form. A duplicate, a path that is
// both a file and a directory, a link out of the snapshot or in a loop is an error that
// names the path.
func ParseSnapshot(data []byte) (fs.FS, error) {
	archive := txtar.Parse(data)
	if len(archive.Files) == 0 {
		return nil, errors.New("not a snapshot: no line of the form -- path --")
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
			return nil, fmt.Errorf("link %q is part of a loop or needs more than %d links to resolve", topology.Abridge(name), maxLinks)
		}
	}
	return indexed(files)
}

// snapshot has indexes: fstest.MapFS searches all files to list a directory, and for a
// missing path.
type snapshot struct {
	fstest.MapFS
	infos map[string]fs.FileInfo   // of every path but the root
	dirs  map[string][]fs.DirEntry // by path, sorted by name
}

// ReadDir lists a directory, sorted by name.
func (s snapshot) ReadDir(dir string) ([]fs.DirEntry, error) {
	if entries, ok := s.dirs[dir]; ok {
		return slices.Clone(entries), nil
	}
	return s.MapFS.ReadDir(dir)
}

// Lstat returns information about a file, without following a symbolic link.
func (s snapshot) Lstat(name string) (fs.FileInfo, error) {
	if info, ok := s.infos[name]; ok {
		return info, nil
	}
	if name != "." && firstLink(s.MapFS, name) == "" {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return s.MapFS.Lstat(name)
}

func indexed(files fstest.MapFS) (fs.FS, error) {
	s := snapshot{MapFS: files, infos: map[string]fs.FileInfo{}, dirs: map[string][]fs.DirEntry{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		info, err := files.Lstat(name)
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		dir := path.Dir(name)
		s.infos[name], s.dirs[dir] = info, append(s.dirs[dir], fs.FileInfoToDirEntry(info))
	}
	return s, nil
}

// addFile adds a file and the directories above it to files.
func addFile(files fstest.MapFS, name string, file *fstest.MapFile) error {
	if name == "." || !isPath(name) {
		return fmt.Errorf("invalid path %q: want a path from the root of sysfs", topology.Abridge(name))
	}
	if known, ok := files[name]; ok && known.Mode.IsDir() {
		return fmt.Errorf("%q is both a file and a directory", topology.Abridge(name))
	} else if ok {
		return fmt.Errorf("%q appears twice", topology.Abridge(name))
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

// isPath reports whether a path is clean, inside the tree, and not too long.
func isPath(name string) bool {
	return fs.ValidPath(name) && len(name) <= maxLinkBytes && strings.Count(name, "/") < maxPathDepth
}

// checkLink accepts only links that fstest.MapFS, which resolves ".." by name,
// and the kernel resolve to the same path.
func checkLink(name, target string, data []byte) error {
	switch {
	case path.IsAbs(target):
		return fmt.Errorf("link %q has an absolute target", topology.Abridge(name))
	case target == "" || path.Clean(target) != target:
		return fmt.Errorf("link %q: target %q is not in its shortest form", topology.Abridge(name), topology.Abridge(target))
	case !isPath(path.Join(path.Dir(name), target)):
		return fmt.Errorf("link %q leads out of the snapshot", topology.Abridge(name))
	case len(bytes.TrimSpace(data)) > 0:
		return fmt.Errorf("link %q has content", topology.Abridge(name))
	}
	return nil
}

// maxLinks is the number of links that Linux follows in one path
// (include/linux/namei.h, MAXSYMLINKS).
const maxLinks = 40

// loops reports whether a link needs more than maxLinks links to resolve, or becomes too
// long, as a link to a path under itself does: fstest.MapFS overflows the stack then. A
// path through several links is safe when each of them is, because every link that is
// resolved shortens the rest of the path.
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

// firstLink returns the shortest prefix of a path that is a symbolic link, or "".
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
