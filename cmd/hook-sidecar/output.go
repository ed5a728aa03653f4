package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// keptError is a writer that keeps its first error: cobra writes help and lets
// the error go.
type keptError struct {
	to  io.Writer
	err error
}

// Write is part of io.Writer.
func (k *keptError) Write(data []byte) (int, error) {
	n, err := k.to.Write(data)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// withoutName is an error without the name of a file, for who says it already:
// write that which was asked for, not the one beside.
func withoutName(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// newFileMode is what a file that did not exist before gets, less the umask.
const newFileMode = 0o644

func writeWhole(file string, data []byte) error {
	// A symbolic link stays one: the file that it names is written.
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	old, err := os.Stat(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return withoutName(err)
	}
	if old != nil && !old.Mode().IsRegular() {
		return withoutName(os.WriteFile(file, data, newFileMode)) // a pipe or a terminal cannot be replaced
	}
	beside := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+"."+rand.Text())
	if err := writeNew(beside, old, data); err != nil {
		return err
	}
	if err := os.Rename(beside, file); err != nil {
		return errors.Join(withoutName(err), os.Remove(beside))
	}
	return nil
}

// writeNew writes a file that is not there yet, with the mode of old if there
// is one. On an error there is no file.
func writeNew(name string, old fs.FileInfo, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFileMode)
	if err != nil {
		return withoutName(err)
	}
	_, err = f.Write(data)
	err = withoutName(err)
	if old != nil {
		err = errors.Join(err, withoutName(f.Chmod(old.Mode().Perm())))
	}
	if err = errors.Join(err, withoutName(f.Close())); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
