package redact

import (
	"bytes"
	"encoding/base64"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// aboutSecret has words of a line that is about a secret, wherever in it that is.
var aboutSecret = newHints(
	strings.Fields(`access auth credential key licence license login pass secret token`)...)

// candidate matches a word that is long enough for a generated secret. A path has several such words.
var candidate = lazyregexp.New(`[A-Za-z0-9_+=~-]{10,}`)

// removeRandom removes words that look as a program makes secrets, in lines that are about one: a
// sentence may name the secret anywhere.
func removeRandom(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if aboutSecret.isIn(strings.ToLower(line)) {
			line = candidate.ReplaceAllStringFunc(line, func(word string) string {
				if isRandom(word) {
					return Mark
				}
				return word
			})
		}

		b.WriteString(line)
	}

	return b.String()
}

// keyLength is how long a key is at least, in base64, that is one whatever the line is about.
const keyLength = 32

// key matches a text that is as long, and no path from the root.
var key = lazyregexp.New(`[A-Za-z0-9+][A-Za-z0-9+/]{31,}={0,2}`)

// encoded matches a word that may be base64, also that of an address (RFC 4648, 5).
var encoded = lazyregexp.New(`[\w+/-]{12,}={0,2}`)

// removeKeys removes long texts in base64 that are as random as keys, and shorter ones of a name
// and a value.
func removeKeys(text string) string {
	if hasKey(text) {
		text = key.ReplaceAllStringFunc(text, func(word string) string {
			if isKey(word) {
				return Mark
			}
			return word
		})
	}

	if hasEncoded(text) {
		text = encoded.ReplaceAllStringFunc(text, func(word string) string {
			if isEncoded(word) {
				return Mark
			}
			return word
		})
	}

	return text
}

// hasEncoded reports whether a text has a word that is a name and a value in base64.
func hasEncoded(text string) bool {
	begin := 0
	for i := range len(text) + 1 {
		if i < len(text) && isEncoding(text[i]) {
			continue
		}
		if isEncoded(text[begin:i]) {
			return true
		}
		begin = i + 1
	}

	return false
}

func isEncoding(c byte) bool {
	return isNamePart(c) && c != '.' && c != '$' || c == '+'
}

// decodedPair is a name with a value, of one line or as the first of several.
var decodedPair = lazyregexp.New(`^\s*[{\[]?\s*"?[\w.@-]+"?\s*[:=]\s*[^\s:=]`)

// isEncoded reports whether a word is a name with a value in base64, in ASCII.
func isEncoded(word string) bool {
	word = strings.TrimRight(word, "=")
	if len(word) < 12 {
		return false
	}

	// the first of each four characters has the upper bits of a byte of ASCII
	for i := 0; i < len(word); i += 4 {
		if c := word[i]; (c < 'I' || c > 'Z') && (c < 'a' || c > 'f') {
			return false
		}
	}

	word = strings.NewReplacer("-", "+", "_", "/").Replace(word)
	text, err := base64.RawStdEncoding.DecodeString(word)
	isOther := func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }
	return err == nil && !bytes.ContainsFunc(text, isOther) && decodedPair.MatchString(string(text))
}

// isKey reports whether a long word is a key: a path has more signs, or words that are not random.
func isKey(word string) bool {
	return isRandom(word) && strings.Count(word, "/") <= len(word)/12
}

// hasKey reports whether a text has a word that is as long as a key.
func hasKey(text string) bool {
	length := 0
	for i := range len(text) {
		c := text[i]
		isPart := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' ||
			c == '/'
		if length++; !isPart {
			length = 0
		}
		if length == keyLength {
			return true
		}
	}

	return false
}

// isRandom reports whether a word has small letters, capitals and digits in turn, as no name has:
// two of each or more, and digits in two places.
func isRandom(word string) bool {
	small, capital, digits, runs := 0, 0, 0, 0
	wasDigit := false
	for _, c := range word {
		isDigit := c >= '0' && c <= '9'
		switch {
		case isDigit:
			digits++
		case c >= 'a' && c <= 'z':
			small++
		case c >= 'A' && c <= 'Z':
			capital++
		}

		if isDigit && !wasDigit {
			runs++
		}
		wasDigit = isDigit
	}

	return small > 1 && capital > 1 && digits > 1 && runs > 1
}
