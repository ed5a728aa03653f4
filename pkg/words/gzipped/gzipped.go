// Package gzipped reads what gzip may have compressed, up to a limit.
package gzipped

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Decompress returns data that gzip has compressed as it was before, and other data as it
// is. More than limit bytes are an error, before they take memory.
func Decompress(data []byte, limit int) ([]byte, error) {
	if !isCompressed(data) {
		return data, checkLength(data, limit)
	}
	return Read(bytes.NewReader(data), func([]byte) int { return limit })
}

// Read reads what gzip may have compressed, up to the limit for what begins so. More bytes are an
// error, before they take memory.
func Read(from io.Reader, limitOf func(head []byte) int) ([]byte, error) {
	plain, err := newReader(from)
	var head []byte
	if err == nil {
		head, err = plain.Peek(plain.Size())
	}

	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	limit := limitOf(head)
	all := bytes.NewBuffer(make([]byte, 0, min(sizeOf(from), limit)+bytes.MinRead))
	if _, err = all.ReadFrom(io.LimitReader(plain, int64(limit)+1)); err != nil {
		return nil, err
	}

	return all.Bytes(), checkLength(all.Bytes(), limit)
}

// sizeOf returns the size of a regular file: to grow a buffer to it takes its memory twice. It is 0
// of all else.
func sizeOf(from io.Reader) int {
	file, isFile := from.(interface{ Stat() (fs.FileInfo, error) })
	if !isFile {
		return 0
	}

	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}

	return int(info.Size())
}

// isCompressed reports whether data begins as gzip's (RFC 1952, 2.3.1).
func isCompressed(data []byte) bool { return bytes.HasPrefix(data, []byte("\x1f\x8b")) }

func checkLength(data []byte, limit int) error {
	if len(data) > limit {
		return fmt.Errorf("more than %d bytes", limit)
	}
	return nil
}

// newReader returns a reader of what gzip may have compressed.
func newReader(from io.Reader) (*bufio.Reader, error) {
	raw := bufio.NewReader(&ending{Reader: from})
	if head, _ := raw.Peek(2); !isCompressed(head) {
		return raw, nil
	}

	r, err := gzip.NewReader(raw)
	if err != nil {
		return nil, fmt.Errorf("decompress gzip: %w", err)
	}

	return bufio.NewReader(decompressing{r}), nil
}

// ending reads up to the first end: after that a terminal would wait for more.
type ending struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (n int, err error) {
	if e.err == nil {
		n, e.err = e.Reader.Read(p)
	}
	return n, e.err
}

// decompressing names what fails.
type decompressing struct{ io.Reader }

// Read implements io.Reader.
func (d decompressing) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("decompress gzip: %w", err)
	}
	return n, err
}
