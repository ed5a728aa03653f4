package gzipped_test

import (
	"io"
	"testing"

	"hook-sidecar/pkg/words/gzipped"
	"hook-sidecar/test/expect"
)

// terminal has a line and an end, after which it waits for another line: here it fails.
type terminal struct {
	t     *testing.T
	line  string
	reads int
}

func (r *terminal) Read(p []byte) (int, error) {
	r.reads++
	switch r.reads {
	case 1:
		return copy(p, r.line), nil
	case 2:
		return 0, io.EOF
	}

	r.t.Error("it is read after its end")
	return 0, io.EOF
}

// TestReadTerminal: Ctrl-D ends what a user types.
func TestReadTerminal(t *testing.T) {
	data, err := gzipped.Read(&terminal{t: t, line: "<domain/>\n"}, func(head []byte) int {
		expect.Same(t, "<domain/>\n", string(head), "head (-want +got)")
		return 100
	})

	expect.NoError(t, err)
	expect.Same(t, "<domain/>\n", string(data), "data (-want +got)")
}
