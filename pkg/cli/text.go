package cli

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
)

// EscapedJSON returns JSON that a terminal does not obey. Package json leaves the control
// characters from U+0080 to U+009F, with which a terminal's commands may begin (ECMA-48,
// 5.4).
func EscapedJSON(data []byte) []byte {
	isControl := func(r rune) bool { return 0x80 <= r && r <= 0x9f }
	if !bytes.ContainsFunc(data, isControl) {
		return data
	}
	return regexp.MustCompile(`[\x{80}-\x{9f}]`).ReplaceAllFunc(data, func(control []byte) []byte {
		return fmt.Appendf(nil, `\u%04x`, []rune(string(control))[0])
	})
}

// JSONWriter writes EscapedJSON, of whole lines.
type JSONWriter struct{ To io.Writer }

func (w JSONWriter) Write(line []byte) (int, error) {
	if _, err := w.To.Write(EscapedJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
