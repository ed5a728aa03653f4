package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// write writes to a file, or to standard output when file is "" or "-". A file
// is written whole or not at all: beside it, and then moved into its place.
func (a *app) write(file string, data []byte) error {
	if file == "" || file == "-" {
		_, err := a.out.Write(data)
		return err
	}
	if err := writeWhole(file, data); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// newFileMode is what a file that did not exist before gets, less the umask.
const newFileMode = 0o644

func writeWhole(file string, data []byte) error {
	mode := os.FileMode(newFileMode)
	if old, err := os.Stat(file); err == nil {
		if !old.Mode().IsRegular() {
			return os.WriteFile(file, data, newFileMode)
		}
		mode = old.Mode().Perm()
	}
	beside, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = beside.Write(data)
	err = errors.Join(err, beside.Chmod(mode), beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(beside.Name()))
	}
	return nil
}
