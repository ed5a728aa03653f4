package xmledit

import (
	"strings"
	"unicode/utf8"
)

// checkCharacters refuses what is not UTF-8 and what XML 1.0 (production Char)
// does not allow, everywhere: encoding/xml looks at text and values only.
func checkCharacters(text string) error {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		switch {
		case r == utf8.RuneError && size == 1:
			return errorAt(text, i, "byte 0x%02x is not UTF-8", text[i])
		case r < ' ' && !strings.ContainsRune(space, r), r == 0xfffe, r == 0xffff:
			return errorAt(text, i, "character %U is not allowed in XML", r)
		}
		i += size
	}
	return nil
}
