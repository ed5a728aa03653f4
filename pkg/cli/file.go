package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// newFileMode is the mode of a new file, before the umask.
const newFileMode = 0o644

// write writes to a file, or to out when file is "" or "-".
func write(out io.Writer, file string, data []byte) error {
	if file == "" || file == "-" {
		_, err := out.Write(data)
		return err
	}
	if err := writeFile(file, data); err != nil {
		return fmt.Errorf("write %s: %w", file, WithoutName(err))
	}
	return nil
}

// writeFile writes a temporary file in the same directory and renames it. A file
// that exists keeps its mode, and a symbolic link stays one.
func writeFile(file string, data []byte) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	old, err := os.Stat(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != nil && !old.Mode().IsRegular() {
		return os.WriteFile(file, data, newFileMode) // a pipe or a terminal cannot be replaced
	}
	temporary := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+"."+rand.Text())
	err = os.WriteFile(temporary, data, newFileMode)
	if err == nil && old != nil {
		err = os.Chmod(temporary, old.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(temporary, file)
	}
	if err == nil {
		return nil
	}
	if removed := os.Remove(temporary); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(WithoutName(err), removed)
	}
	return err
}

// WithoutName removes the name of a file from an error, for messages that have
// it or that must not show a temporary one.
func WithoutName(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
