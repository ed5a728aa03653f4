package xmledit

import (
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// resolve returns the text or the value at a span with its references resolved and each newline
// as a line feed (XML 1.0, 2.11). In a value, tabs and newlines that are not written as
// references count as spaces (3.3.3).
func resolve(text string, at Span, value bool) (string, error) {
	plain := text[at.Start:at.End]
	if !isSpecial(plain, value) {
		return plain, nil
	}
	var resolved strings.Builder
	for i := at.Start; i < at.End; {
		switch b := text[i]; {
		case b == '&':
			r, end, err := reference(text, Span{i, at.End})
			if err != nil {
				return "", err
			}
			resolved.WriteRune(r)
			i = end
			continue
		case b == '\r' && strings.HasPrefix(text[i:at.End], "\r\n"): // its line feed follows
		case value && isSpace(b):
			resolved.WriteByte(' ')
		case b == '\r':
			resolved.WriteByte('\n')
		default:
			resolved.WriteByte(b)
		}
		i++
	}
	return resolved.String(), nil
}

// isSpecial reports whether resolving changes a text or a value.
func isSpecial(plain string, value bool) bool {
	for i := range len(plain) {
		switch plain[i] {
		case '&', '\r':
			return true
		case '\n', '\t':
			if value {
				return true
			}
		}
	}
	return false
}

// reference resolves the reference at the start of a span, and returns the offset after it.
// Without a document type XML has five entities.
func reference(text string, within Span) (rune, int, error) {
	start := within.Start + len("&")
	length := max(0, strings.IndexByte(text[start:within.End], ';'))
	name, end := text[start:start+length], start+length+len(";")
	switch name {
	case "lt":
		return '<', end, nil
	case "gt":
		return '>', end, nil
	case "amp":
		return '&', end, nil
	case "apos":
		return '\'', end, nil
	case "quot":
		return '"', end, nil
	}
	digits, isNumber := strings.CutPrefix(name, "#")
	switch {
	case !isNumber && (name == "" || nameEnd(text, start) != start+length):
		return 0, 0, errorAt(text, within.Start, "an unescaped &")
	case !isNumber:
		return 0, 0, errorAt(text, within.Start, "unknown entity &%s;", topology.Abridge(name))
	}
	base := 10
	if hex, found := strings.CutPrefix(digits, "x"); found {
		digits, base = hex, 16
	}
	code, err := strconv.ParseUint(digits, base, 31)
	if err != nil || !isCharacter(rune(code)) {
		return 0, 0, errorAt(text, within.Start, "&%s; refers to no character of XML", topology.Abridge(name))
	}
	return rune(code), end, nil
}
