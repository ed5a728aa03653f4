package host

import (
	"fmt"
	"io/fs"
	"os"
)

// machineDir is the file system of a directory of this machine. No path leads out of it.
type machineDir struct {
	rootFS
	openDir func(name string) (directory, error) // fails where directories cannot be kept open
}

// rootFS is implemented by the file system of an os.Root.
type rootFS interface {
	fs.ReadDirFS
	fs.ReadLinkFS
}

func openDirectory(name string) (fs.FS, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open sysfs: %w", err)
	}
	return machineDir{root.FS().(rootFS), dirOpener(name)}, nil
}
