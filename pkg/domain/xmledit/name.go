package xmledit

import (
	"strings"
	"unicode/utf8"
)

// nameEnd is the offset behind the name that starts at offset at; at itself
// when none does. A name has one colon at most, as namespaces want it.
func nameEnd(text string, at int) int {
	start, colon := at, false
	for at < len(text) {
		r, size := rune(text[at]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[at:])
		}
		if r == ':' {
			if colon {
				break
			}
			colon = true
		} else if !isNameStart(r) && (at == start || !isNameRest(r)) {
			break
		}
		at += size
	}
	return at
}

// isNameStart is NameStartChar of XML 1.0 (fifth edition, production 4), the
// edition that libxml2 follows, without the colon.
func isNameStart(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_'
	case r <= 0x2ff:
		return r >= 0xc0 && r != 0xd7 && r != 0xf7
	case r <= 0x1fff:
		return r >= 0x370 && r != 0x37e
	case r <= 0x218f:
		return r >= 0x2070 || r == 0x200c || r == 0x200d
	case r <= 0xd7ff:
		return 0x2c00 <= r && r <= 0x2fef || r >= 0x3001
	case r <= 0xfffd:
		return 0xf900 <= r && r <= 0xfdcf || r >= 0xfdf0
	}
	return 0x10000 <= r && r <= 0xeffff
}

// isNameRest is what NameChar (production 4a) has beyond NameStartChar.
func isNameRest(r rune) bool {
	return r == '-' || r == '.' || '0' <= r && r <= '9' || r == 0xb7 ||
		0x300 <= r && r <= 0x36f || r == 0x203f || r == 0x2040
}

// split takes a name apart at its colon. A colon that has nothing before or
// behind it is a part of the name.
func split(name string) (prefix, local string) {
	if before, after, found := strings.Cut(name, ":"); found && before != "" && after != "" {
		return before, after
	}
	return "", name
}
