package xmledit

import "unicode/utf8"

const space = " \t\r\n" // production S

// skip returns the offset of the first byte from at on that is not whitespace.
func skip(text string, at int) int {
	for at < len(text) && isSpace(text[at]) {
		at++
	}
	return at
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// IsText reports whether a text is UTF-8 and has only characters of XML.
func IsText(text string) bool { return checkCharacters(text) == nil }

// checkCharacters refuses bytes that are not UTF-8, and characters that XML does not have.
func checkCharacters(text string) error {
	for i := 0; i < len(text); {
		if b := text[i]; b >= ' ' && b < utf8.RuneSelf || b == '\n' { // nearly all
			i++
			continue
		}

		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return errorAt(text, i, "byte 0x%02x is not UTF-8", text[i])
		case !isCharacter(r):
			return errorAt(text, i, "character %U is not allowed in XML", r)
		}

		i += size
	}

	return nil
}

// isCharacter reports whether r is a Char of XML 1.0.
func isCharacter(r rune) bool {
	switch {
	case r < ' ':
		return r == '\t' || r == '\n' || r == '\r'
	case r <= 0xd7ff:
		return true
	case r <= 0xfffd:
		return r >= 0xe000
	}

	return 0x10000 <= r && r <= utf8.MaxRune
}

// nameEnd returns the offset after the name that starts at offset at, or at itself if none
// does. A name has at most one colon, as namespaces require.
func nameEnd(text string, at int) int {
	start, colon := at, false
	for at < len(text) {
		if b := text[at]; 'a' <= b && b <= 'z' { // nearly all
			at++
			continue
		}

		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == ':' && !colon:
			colon = true
		case isNameStart(r), at > start && isNameRest(r):
		default:
			return at
		}

		at += size
	}

	return at
}

// isNameStart reports whether r is a NameStartChar of XML 1.0 (fifth edition, as libxml2;
// production 4) without the colon.
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

// isNameRest reports whether NameChar (production 4a) adds r to NameStartChar.
func isNameRest(r rune) bool {
	return r == '-' || r == '.' || '0' <= r && r <= '9' || r == 0xb7 ||
		0x300 <= r && r <= 0x36f || r == 0x203f || r == 0x2040
}
