package env

import (
	"io/fs"
	"os"
)

// directory is a directory of this machine that no path leaves.
type directory struct {
	root *os.Root
}

func openDirectory(name string) (directory, error) {
	root, err := os.OpenRoot(name)
	return directory{root}, err
}

// Open opens a file for reading.
func (d directory) Open(name string) (fs.File, error) { return d.root.FS().Open(name) }

// ReadDir lists a directory, by name.
func (d directory) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), name) }

// ReadLink returns the text of a symbolic link.
func (d directory) ReadLink(name string) (string, error) { return fs.ReadLink(d.root.FS(), name) }

// Lstat describes a file, or the symbolic link that it is.
func (d directory) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(d.root.FS(), name) }

// open opens a directory below this one; it must be closed. What is opened in
// it then costs one step and not one for each directory above it.
func (d directory) open(name string) (directory, error) {
	root, err := d.root.OpenRoot(name)
	return directory{root}, err
}

// Close gives the directory back.
func (d directory) Close() error { return d.root.Close() }
