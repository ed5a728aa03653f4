package redact

import (
	"strings"
	"unicode/utf8"
)

// pair is a name with a value after it: an assignment, an entry of JSON or YAML, a header, a flag.
// Each name may have a quote, and in front of that a sign that is not part of a name.
type pair struct {
	before string // the sign in front of the name and its quote, "-" or "--"; "" at the beginning
	name   string
	quote  string // that ends the name
	sign   string // between name and value, with whitespace
	value  int    // where the value begins in the text
}

// pairs finds the pairs of a text. It looks at each byte a limited number of times: logs have
// megabytes of pairs.
type pairs struct {
	text string
	open int // no index of a name that begins before this place ends
}

// next returns the first pair from a place on, at which a name may begin.
func (ps *pairs) next(from int) (p pair, isFound bool) {
	text := ps.text
	for at := from; at < len(text); {
		begin := at // of the quote, or of the name
		if at > from || !beginsPair(text[at:]) {
			begin = afterSign(text, at)
		}

		name := afterQuote(text, begin)
		if begin < 0 || name == len(text) || !isNameStart(text[name]) {
			at = nextSign(text, at)
			continue
		}

		p, end := ps.at(name)
		if p.value > 0 {
			p.before = text[at:begin]
			return p, true
		}

		// No pair begins in a name that has no sign after it, but one may after its last hyphen.
		if at = end; text[end-1] == '-' && beginsPair(text[end:]) {
			at = end - 1
		}
	}

	return pair{}, false
}

// beginsPair reports whether a name, or the quote of one, begins a text.
func beginsPair(text string) bool {
	name := afterQuote(text, 0)
	return name < len(text) && isNameStart(text[name])
}

// afterSign returns where a name may begin after the sign at a place; -1 if it is a part of a name.
func afterSign(text string, at int) int {
	switch {
	case strings.HasPrefix(text[at:], "--"):
		return at + 2
	case text[at] == '-':
		return at + 1
	case isNamePart(text[at]) || text[at] == '%':
		return -1
	}

	_, size := utf8.DecodeRuneInString(text[at:])
	return at + size
}

// nextSign returns the next place at which a sign may be. Of many backslashes that is the last.
func nextSign(text string, at int) int {
	_, size := utf8.DecodeRuneInString(text[at:])
	next := at + size
	if text[at] != '\\' {
		return next
	}

	end := next + len(text[next:]) - len(strings.TrimLeft(text[next:], `\`))
	return max(next, end-1)
}

// at returns the pair whose name begins at a place, and where the name ends. Without a sign after
// the name the pair has no value.
func (ps *pairs) at(begin int) (p pair, end int) {
	text := ps.text
	end = begin
	for end < len(text) && isNamePart(text[end]) {
		end++
	}

	name := ps.afterIndex(end)
	if name < 0 {
		return pair{}, end
	}

	quote := afterQuote(text, name)
	value := afterEquals(text, quote)
	if value > 0 && quote > name && strings.HasPrefix(text[value:], "\n") { // JSON, RFC 8259, 2
		value = afterSpace(text, value, whitespace)
	}

	if value < 0 {
		return pair{}, end
	}

	return pair{
		name: text[begin:name], quote: text[name:quote], sign: text[quote:value], value: value,
	}, end
}

// afterIndex returns where the index of a name ends that begins at a place, such as [0]; the place
// itself if none does, and -1 if it does not end.
func (ps *pairs) afterIndex(at int) int {
	switch {
	case at == len(ps.text) || ps.text[at] != '[':
		return at
	case at < ps.open:
		return -1
	}

	end := at + 1 + strings.IndexAny(ps.text[at+1:], whitespace+"]")
	if end > at && ps.text[end] == ']' {
		return end + 1
	}

	// No ] comes before this place, so no index that begins before it ends. A text of many
	// brackets would otherwise take the square of its length.
	if ps.open = end; end == at {
		ps.open = len(ps.text)
	}

	return -1
}

// afterQuote returns where a quote ends that begins at a place, with backslashes in front of it; the
// place itself if none does.
func afterQuote(text string, at int) int {
	if at < 0 {
		return at
	}

	end := at
	for end < len(text) && text[end] == '\\' {
		end++
	}

	if end < len(text) && (text[end] == '"' || text[end] == '\'') {
		return end + 1
	}

	return at
}

// afterEquals returns where a sign ends that begins at a place, "=", "=>", ":=" or ":" with
// whitespace around; -1 if none does. A ":" may end its line.
func afterEquals(text string, at int) int {
	at = afterSpace(text, at, whitespace)
	rest := text[at:]
	switch {
	case strings.HasPrefix(rest, ":="), strings.HasPrefix(rest, "=>"):
		return afterSpace(text, at+2, whitespace)
	case strings.HasPrefix(rest, "="):
		return afterSpace(text, at+1, whitespace)
	case strings.HasPrefix(rest, ":"):
		return afterSpace(text, at+1, " \t")
	}

	return -1
}

const whitespace = " \t\n\f\r"

func afterSpace(text string, at int, space string) int {
	for at < len(text) && strings.IndexByte(space, text[at]) >= 0 {
		at++
	}
	return at
}

func isNameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isNamePart(c byte) bool {
	return isNameStart(c) || c >= '0' && c <= '9' || c == '.' || c == '$' || c == '/' || c == '-'
}
