package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hook-sidecar/pkg/reasons"
)

// write writes to a file, or to standard output when file is "" or "-".
func (a *app) write(file string, data []byte) error {
	if file == "" || file == "-" {
		_, err := a.out.Write(data)
		return err
	}
	if err := writeAtomically(file, data); err != nil {
		return fmt.Errorf("write %s: %w", file, withoutName(err))
	}
	return nil
}

// newFileMode is the mode of a new file, before the umask.
const newFileMode = 0o644

// writeAtomically writes a temporary file in the same directory and renames it. A file
// that exists keeps its mode, and a symbolic link stays one.
func writeAtomically(file string, data []byte) error {
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
		err = errors.Join(withoutName(err), removed)
	}
	return err
}

// withoutName removes the name of a file from an error, for messages that have
// it or that must not show a temporary one.
func withoutName(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

func encodeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(jsonWriter{w})
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// warn prints warnings. Several of a kind share one hint.
func (a *app) warn(warnings []reasons.Warning) {
	for i, w := range warnings {
		a.say("warning: %s: %s", w.Code, w.Text)
		last := i == len(warnings)-1 || warnings[i+1].Code != w.Code
		if last && w.Remedy != "" {
			a.say("hint: %s", w.Remedy)
		}
	}
}
