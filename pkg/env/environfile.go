package env

import (
	"fmt"
	"io"
	"strings"
)

// maxEnvironBytes bounds an environment. Linux limits the arguments and the
// environment of a program to 6 MiB together (fs/exec.c, bprm_stack_limits).
const maxEnvironBytes = 8 << 20

// ReadEnvironFile reads NAME=VALUE entries. They are separated by NUL bytes, as
// in /proc/PID/environ, or by newlines; then empty lines and lines that begin
// with # are skipped. The error for an entry without "=" names its number.
func ReadEnvironFile(r io.Reader) ([]string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxEnvironBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	if len(data) > maxEnvironBytes {
		return nil, fmt.Errorf("read environment: more than %d bytes", maxEnvironBytes)
	}
	text := string(data)
	if strings.Contains(text, "\x00") {
		return entries(text, "\x00", "entry")
	}
	return entries(text, "\n", "line")
}

// entries splits text at the separator. unit names an entry in errors.
func entries(text, separator, unit string) ([]string, error) {
	var environ []string
	number := 0
	for entry := range strings.SplitSeq(text, separator) {
		number++
		if separator == "\n" {
			entry = strings.TrimSuffix(entry, "\r")
			if strings.HasPrefix(strings.TrimSpace(entry), "#") {
				continue
			}
		}
		if strings.TrimSpace(entry) == "" {
			continue
		}
		name, _, found := strings.Cut(entry, "=")
		if !found || name == "" {
			// The entry itself is not shown: an environment holds secrets.
			return nil, fmt.Errorf("read environment: %s %d: want NAME=VALUE", unit, number)
		}
		environ = append(environ, entry)
	}
	return environ, nil
}
