package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Escaped returns a text as one line that a terminal shows and does not obey: a character
// that is not printable becomes an escape of Go. Names in a VMI and a domain are untrusted:
// an escape sequence can change the terminal, a newline can forge a message.
func Escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// EscapedJSON returns JSON that a terminal does not obey. Package json leaves the control
// characters from U+0080 to U+009F, with which a terminal's commands may begin (ECMA-48,
// 5.4).
func EscapedJSON(data []byte) []byte {
	const lead = 0xc2 // of their two bytes in UTF-8, and of no other's second byte
	var out []byte
	for {
		at := bytes.IndexByte(data, lead)
		switch {
		case at < 0 && out == nil:
			return data
		case at < 0:
			return append(out, data...)
		case at+1 < len(data) && data[at+1] <= 0x9f:
			out = fmt.Appendf(append(out, data[:at]...), `\u%04x`, data[at+1])
		default:
			out = append(out, data[:min(at+2, len(data))]...)
		}
		data = data[min(at+2, len(data)):]
	}
}

// JSONWriter writes EscapedJSON, of whole lines.
type JSONWriter struct{ To io.Writer }

func (w JSONWriter) Write(line []byte) (int, error) {
	if _, err := w.To.Write(EscapedJSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// EncodeJSON writes a value as indented JSON that a terminal does not obey.
func EncodeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(JSONWriter{w})
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
