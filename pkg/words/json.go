package words

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
