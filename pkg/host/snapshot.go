package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/gzipped"
)

// maxSnapshotBytes bounds a snapshot file; one of 100 devices has 160 KB.
const maxSnapshotBytes = 16 << 20

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

	files := newFileSystem(kernelOf(string(archive.Comment)))
	for _, section := range archive.Files {
		name, target, isLink := strings.Cut(section.Name, linkArrow)
		mode, data := fs.FileMode(0o444), string(section.Data)
		if isLink {
			target = strings.TrimPrefix(target, " ")
			if err := checkLink(name, target, section.Data); err != nil {
				return nil, err
			}
			mode, data = fs.ModeSymlink|0o777, target
		}

		if err := files.add(name, mode, data); err != nil {
			return nil, err
		}
	}

	files.sort()
	return files, nil
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
