package env

import (
	"io/fs"
	"os"
)

// directory is a directory of this machine. No path leads out of it.
type directory struct {
	rootFS
	root *os.Root
}

// rootFS is what the file system of an os.Root implements.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadLinkFS
}

func newDirectory(root *os.Root, err error) (directory, error) {
	if err != nil {
		return directory{}, err
	}
	return directory{root.FS().(rootFS), root}, nil
}

// open opens a subdirectory, which must be closed. Looking up a file in it takes
// one step instead of one per directory above it.
func (d directory) open(name string) (directory, error) { return newDirectory(d.root.OpenRoot(name)) }

// Close closes the directory.
func (d directory) Close() error { return d.root.Close() }
