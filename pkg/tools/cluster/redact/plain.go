package redact

import (
	"slices"
	"strings"
	"sync"
)

// hints are texts in lower case, one of which is in every text that a rule matches. To match all
// rules takes far longer than to look for these, and most of a log has none.
type hints struct {
	texts []string

	indexed sync.Once           // at the first text: a program that redacts nothing has no index
	single  string              // those of one character
	begins  map[uint16][]string // the others, by their first two characters
	pairs   []uint64            // one bit per two characters, set if they begin one
}

func newHints(texts ...string) *hints { return &hints{texts: texts} }

// index sorts the hints by their first characters.
func (h *hints) index() {
	h.begins, h.pairs = map[uint16][]string{}, make([]uint64, 1<<10)
	for _, text := range h.texts {
		text = strings.ToLower(text)
		if len(text) == 1 {
			h.single += text
			continue
		}

		pair := uint16(text[0])<<8 | uint16(text[1])
		h.begins[pair] = append(h.begins[pair], text)
		h.pairs[pair>>6] |= 1 << (pair & 63)
	}
}

// isIn reports whether a text in lower case has one of the hints.
func (h *hints) isIn(lower string) bool {
	h.indexed.Do(h.index)
	if h.single != "" && strings.ContainsAny(lower, h.single) {
		return true
	}

	for at := range max(len(lower), 1) - 1 {
		pair := uint16(lower[at])<<8 | uint16(lower[at+1])
		isBegin := h.pairs[pair>>6]&(1<<(pair&63)) != 0
		if isBegin && slices.ContainsFunc(h.begins[pair], func(hint string) bool {
			return strings.HasPrefix(lower[at:], hint)
		}) {
			return true
		}
	}

	return false
}

// nameHints are in every name of which doubtOf says that its value may be a secret.
var nameHints = newHints(allNames()...)

// textHints are in every text in which a rule of Text finds something, but that a colon alone is in
// most texts.
var textHints = newHints(allHints()...)

func allHints() []string {
	texts := []string{`\`, Mark, "&lt;", "&gt;"} // beside the rules: escapes
	for _, r := range textRules {
		if r.hints != nil {
			texts = append(texts, r.hints.texts...)
		}
	}
	return slices.DeleteFunc(texts, func(text string) bool { return text == ":" })
}

// isPlain reports whether a text has nothing that a rule may match.
func isPlain(text string) bool {
	return !textHints.isIn(strings.ToLower(text)) &&
		(!strings.Contains(text, ":") || !hasVariable(text)) && !hasKey(text) &&
		!hasEncoded(text)
}

// hasVariable reports whether a text may have the name of a variable: an underscore after a capital
// or a digit.
func hasVariable(text string) bool {
	for at := 1; at < len(text); at++ {
		before := text[at-1]
		isName := before >= 'A' && before <= 'Z' || before >= '0' && before <= '9' || before == '_'
		if text[at] == '_' && isName {
			return true
		}
	}

	return false
}

// allNames are parts of the names of secrets. Those of two words may have a sign
// between, as conn_str has.
func allNames() []string {
	return slices.Concat(secretParts, secretWords, doubtfulWords, secretEnds, doubtfulEnds,
		[]string{"conn", "x-"})
}
