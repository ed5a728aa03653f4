package words

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// JSONError returns the position of a decoding error, line and column in bytes from 1, and the
// field, without the content.
func JSONError(data []byte, err error) error {
	var end int64 // of the bytes read, including the invalid one
	text := "invalid JSON"
	switch err := err.(type) {
	case *json.SyntaxError:
		end = err.Offset
	case *json.UnmarshalTypeError:
		end, text = err.Offset, fmt.Sprintf("field %s has the wrong type", err.Field)
		if err.Field == "" {
			text = "must be an object"
		}
	default:
		return errors.New("a field cannot be decoded")
	}

	before := data[:max(0, min(end-1, int64(len(data))))]
	line := 1 + bytes.Count(before, []byte("\n"))
	return fmt.Errorf("line %d, column %d: %s", line, len(before)-bytes.LastIndexByte(before, '\n'),
		text)
}

// JSONWriter writes JSON, in whole lines, that a terminal does not obey. Package json leaves the
// control characters from U+0080 to U+009F, which can begin a terminal's commands (ECMA-48, 5.4).
type JSONWriter struct{ To io.Writer }

func (w JSONWriter) Write(line []byte) (int, error) {
	isControl := func(r rune) bool { return 0x80 <= r && r <= 0x9f }
	escaped := line
	if bytes.ContainsFunc(line, isControl) {
		escaped = nil
		for _, r := range string(line) {
			if isControl(r) {
				escaped = fmt.Appendf(escaped, `\u%04x`, r)
			} else {
				escaped = utf8.AppendRune(escaped, r)
			}
		}
	}

	if _, err := w.To.Write(escaped); err != nil {
		return 0, err
	}

	return len(line), nil
}
