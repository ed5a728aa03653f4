package boot

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/hostfs"
)

// snapshot is a host in the words of package hostfs, as a file that the program
// under test reads with --sysfs.
func snapshot(text string) ([]byte, error) {
	files, err := hostfs.Parse(text)
	if err != nil {
		return nil, err
	}
	return format(files), nil
}

func format(files fstest.MapFS) []byte {
	archive := &txtar.Archive{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		if file.Mode&fs.ModeSymlink != 0 {
			archive.Files = append(archive.Files, txtar.File{Name: name + " -> " + strings.TrimSpace(string(file.Data))})
			continue
		}
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: file.Data})
	}
	return txtar.Format(archive)
}
