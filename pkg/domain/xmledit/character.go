package xmledit

import "unicode/utf8"

// checkCharacters refuses what is not UTF-8 and what is no character of XML,
// wherever it stands.
func checkCharacters(text string) error {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
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

// IsText reports whether a text is UTF-8 and has none but characters of XML.
func IsText(text string) bool { return checkCharacters(text) == nil }

// isCharacter is production Char of XML 1.0.
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
