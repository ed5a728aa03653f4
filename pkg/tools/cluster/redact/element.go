package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// removeElements removes the text of XML elements whose name says that it is a secret, and of all
// elements in them: <Password><Value>…</Value></Password>. One that does not end has only its own
// text.
func removeElements(text string) string {
	parts := part.FindAllStringIndex(text, -1)
	ends := map[string][]int{} // where elements of a name end
	for _, found := range parts {
		if markup := text[found[0]:found[1]]; strings.HasPrefix(markup, "</") {
			name := tag.FindStringSubmatch(markup)
			if name != nil {
				ends[name[1]] = append(ends[name[1]], found[0])
			}
		}
	}

	var b strings.Builder
	at, end := 0, 0  // the outermost such element ends at end
	isNamed := false // the element before is the name of a secret
	for _, found := range parts {
		inner, markup := text[at:found[0]], text[found[0]:found[1]]
		writeText(&b, inner, at < end)
		if strings.HasPrefix(markup, "<![") { // a text, too
			writeText(&b, markup, at < end)
			at = found[1]
			continue
		}

		b.WriteString(markup)
		at = found[1]
		name := opened(markup)
		isSecret := doubtOf(localName(name)) != unknown || isNamed || isParameter(markup)
		if name != "" && at >= end && isSecret {
			end = elementEnd(text, at, ends[name])
		}

		// Of a key and a value after it, the key says whether the value is a secret.
		isNamed = nameEnd.MatchString(markup) && doubtOf(strings.TrimSpace(inner)) == certain
	}

	writeText(&b, text[at:], at < end)
	return b.String()
}

// nameEnd ends the element that names the next one: <key>Password</key><string>…</string>.
var nameEnd = lazyregexp.New(`^</(?:\w+:)?(?:key|name)\s*>`)

// writeText writes the text between two tags.
func writeText(b *strings.Builder, text string, isSecret bool) {
	if isSecret && strings.TrimSpace(text) != "" && text != Mark {
		text = Mark + lineEnds(text)
	}
	b.WriteString(text)
}

// opened returns the name of the element that a tag begins; "" if it begins none, or an empty one.
func opened(markup string) string {
	found := tag.FindStringSubmatch(markup)
	if found == nil || strings.HasPrefix(markup, "</") || strings.HasSuffix(markup, "/>") {
		return ""
	}
	return found[1]
}

// parameter is the attribute that names a parameter: <param name="password">, <entry key="db.password">.
var parameter = lazyregexp.New(`\s(?:name|key)=\\*(` + Mark + `|"[^"]*"|'[^']*')`)

// isParameter reports whether such an attribute names a secret, also where its value was removed.
func isParameter(markup string) bool {
	found := parameter.FindStringSubmatch(markup)
	return found != nil && (found[1] == Mark || doubtOf(strings.Trim(found[1], `"'\`)) == certain)
}

// localName returns the name of an element without its namespace's prefix.
func localName(name string) string { return name[strings.IndexByte(name, ':')+1:] }

// elementEnd returns where an element ends whose text begins at a place: at its end tag, without one
// at the next tag.
func elementEnd(text string, at int, ends []int) int {
	if i, _ := slices.BinarySearch(ends, at); i < len(ends) {
		return ends[i]
	}
	if length := strings.IndexByte(text[at:], '<'); length >= 0 {
		return at + length
	}
	return len(text)
}
