package redact

import (
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// randomHints are words of a line that is about a secret, wherever in it that is.
var randomHints = strings.Fields(`access auth credential key licence license login pass secret token`)

// candidate is what may be a secret that a program has made. A path and an address have several.
var candidate = lazyregexp.New(`[A-Za-z0-9_+=~-]{10,}`)

// removeRandom removes words that look as a program makes secrets, in lines that are about one: a
// sentence may name the secret anywhere.
func removeRandom(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		lower := strings.ToLower(line)
		isAbout := false
		for _, hint := range randomHints {
			isAbout = isAbout || strings.Contains(lower, hint)
		}

		if isAbout {
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
