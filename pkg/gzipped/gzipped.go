// Package gzipped reads what gzip may have compressed, up to a limit.
package gzipped

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Decompress returns data that gzip has compressed as it was before, and other data as it
// is. More than limit bytes are an error, before they take memory.
func Decompress(data []byte, limit int) ([]byte, error) {
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) { // RFC 1952, 2.3.1
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(r, int64(limit)+1))
		}

		if err != nil {
			return nil, fmt.Errorf("decompress gzip: %w", err)
		}
	}

	if len(data) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, nil
}
