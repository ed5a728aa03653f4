package paste

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"

	"hook-sidecar/pkg/words/lazyregexp"
)

// text is a text without what terminals, mail and forums add.
type text struct {
	all   string
	lines []string
}

// clean returns a text as UTF-8, with newlines of Linux, without colours and quotation marks.
func clean(data []byte) text {
	all := strings.TrimPrefix(decode(data), "\ufeff")
	all = strings.ReplaceAll(strings.ReplaceAll(all, "\r\n", "\n"), "\r", "\n")
	if strings.ContainsAny(all, "\x1b[") {
		all = escapes.ReplaceAllString(all, "")
	}

	lines := strings.Split(all, "\n")
	for depth := 0; depth < maxQuotes && isQuoted(lines); depth++ {
		for i, line := range lines {
			lines[i] = quotation.ReplaceAllString(line, "")
		}
	}

	for i, line := range lines {
		lines[i] = strings.TrimRight(programQuote.ReplaceAllString(line, "$1"), " \t")
	}

	return text{strings.Join(lines, "\n"), lines}
}

// busID and longBusID match addresses as programs print them, the first also without a PCI domain.
const (
	busID     = `(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]`
	longBusID = `[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]`
)

const maxQuotes = 8 // a quotation of a quotation

var (
	// escapes are a terminal's commands (ECMA-48, 5.4), also where the escape itself got lost.
	escapes   = lazyregexp.New(`\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\[(0|1|4|24|22)m`)
	quotation = lazyregexp.New(`^[ \t]*> ?`)
	// programQuote begins a text in a program of Go.
	programQuote = lazyregexp.New("^([ \\t]*)`")
)

// decode returns a text as UTF-8: PowerShell writes UTF-16 to files.
func decode(data []byte) string {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	case len(data) > 3 && data[1] == 0 && data[3] == 0 && data[0] != 0:
		order = binary.LittleEndian
	default:
		return string(data)
	}

	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}

	return string(utf16.Decode(units))
}

// isQuoted reports whether most lines with text are quoted, as a mail or a forum does.
func isQuoted(lines []string) bool {
	quoted, full := 0, 0
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}

		full++
		if quotation.MatchString(line) {
			quoted++
		}
	}

	return quoted > 0 && 2*quoted > full
}
