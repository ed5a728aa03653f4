package archive

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Archive is what collect writes.
type Archive struct {
	Index
	Files []File
}

// All returns the archive's files, the Index first.
func (a *Archive) All() ([]File, error) {
	index, err := yaml.Marshal(a.Index)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", IndexName, err)
	}

	files := slices.Clone(a.Files)
	slices.SortFunc(files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	return slices.Insert(files, 0, File{Name: IndexName, Data: index}), nil
}

// Pack writes the archive as tar, compressed by gzip, in a directory of its own.
func (a *Archive) Pack(to io.Writer, directory string) error {
	files, err := a.All()
	if err != nil {
		return err
	}

	packed := gzip.NewWriter(to)
	w := tar.NewWriter(packed)
	for _, f := range files {
		header := tar.Header{
			Name: path.Join(directory, f.Name), Mode: 0o644, Size: int64(len(f.Data)),
			ModTime: a.Time,
		}

		if err := w.WriteHeader(&header); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}

		if _, err := w.Write(f.Data); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}

	if err := w.Close(); err != nil {
		return err
	}

	return packed.Close()
}
