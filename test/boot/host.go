package boot

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/tools/hostfs"
)

// snapshot returns a host in the format of package hostfs, as a file that the program under test
// reads with --sysfs.
func snapshot(text string) ([]byte, error) {
	files, err := hostfs.Parse(text)
	if err != nil {
		return nil, err
	}
	return format(files.Leaves()), nil
}

// withIDs gives devices of a snapshot of a host the vendor and device of their
// stand-in, "1b36:0010".
func withIDs(snapshot []byte, hostdevs []string, ids string) []byte {
	vendor, device, _ := strings.Cut(ids, ":")
	archive := txtar.Parse(snapshot)
	for i, file := range archive.Files {
		dir, name := path.Split(file.Name)
		if !slices.Contains(hostdevs, path.Base(dir)) {
			continue
		}

		switch name {
		case "vendor":
			archive.Files[i].Data = []byte("0x" + vendor + "\n")
		case "device":
			archive.Files[i].Data = []byte("0x" + device + "\n")
		}
	}

	return txtar.Format(archive)
}

func format(files fstest.MapFS) []byte {
	archive := &txtar.Archive{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		if file.Mode&fs.ModeSymlink != 0 {
			archive.Files = append(archive.Files, txtar.File{
				Name: name + " -> " + strings.TrimSpace(string(file.Data)),
			})
			continue
		}

		archive.Files = append(archive.Files, txtar.File{Name: name, Data: file.Data})
	}

	return txtar.Format(archive)
}
