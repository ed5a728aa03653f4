package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// newFileMode is the mode of a new file, before the umask.
const newFileMode = 0o644

// Write writes to a file, or to standard output when file is "" or "-". A terminal shows
// control characters of a domain or a snapshot, which are untrusted, as "?".
func (p *Program) Write(file string, data []byte) error {
	if isStandardOutput(file) {
		if IsTerminal(p.Out) {
			data = forTerminal(data)
		}
		_, err := p.Out.Write(data)
		return err
	}

	if err := writeFile(file, data); err != nil {
		return fmt.Errorf("write %s: %w", file, host.WithoutPath(err))
	}
	return nil
}

// colours are the sequences that this program writes to a terminal (ECMA-48, 8.3.117).
var colours = lazyregexp.New(`\x1b\[(?:[012]|3[0-7])?m`)

// forTerminal returns lines in which a terminal finds nothing to obey but this program's colours.
func forTerminal(data []byte) []byte {
	var b bytes.Buffer
	add := func(text []byte) {
		for i, line := range bytes.Split(text, []byte("\n")) {
			if i > 0 {
				b.WriteByte('\n')
			}
			for j, cell := range bytes.Split(bytes.TrimSuffix(line, []byte("\r")), []byte("\t")) {
				if j > 0 {
					b.WriteByte('\t')
				}
				b.WriteString(words.Printable(string(cell)))
			}
		}
	}

	at := 0
	for _, colour := range colours.FindAllStringIndex(string(data), -1) {
		add(data[at:colour[0]])
		b.Write(data[colour[0]:colour[1]])
		at = colour[1]
	}

	add(data[at:])
	return b.Bytes()
}

// WriteAs writes a value as JSON or YAML that a terminal does not obey, if that is the format,
// else as text.
func (p *Program) WriteAs(to Output, value any, text func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	var err error
	if to.Format == JSON || to.Format == YAML {
		encoder := json.NewEncoder(words.JSONWriter{To: &b})
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(value)
	} else {
		err = text(&b)
	}

	data := b.Bytes()
	if err == nil && to.Format == YAML {
		data, err = yaml.JSONToYAML(data) // which escapes what is not printable
	}

	if err != nil {
		return err
	}

	return p.Write(to.File, data)
}

func isStandardOutput(file string) bool { return file == "" || file == "-" }

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
		err = errors.Join(host.WithoutPath(err), removed)
	}

	return err
}
