package host

import (
	"errors"
	"io/fs"
	"os"
)

// machineDir is the file system of a directory of this machine. No path leads out of it.
type machineDir struct {
	rootFS
	root *os.Root
	top  opener // the same directory, open; nil where it cannot be kept open
}

// rootFS is implemented by the file system of an os.Root.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadLinkFS
}

func openDirectory(name string) (*machineDir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	d := &machineDir{rootFS: root.FS().(rootFS), root: root}
	if top, err := openDescriptor(name); err == nil {
		d.top = top
	}
	return d, nil
}

// Close closes the directory.
func (d *machineDir) Close() error {
	errs := []error{d.root.Close()}
	if d.top != nil {
		errs = append(errs, d.top.close())
	}
	return errors.Join(errs...)
}
