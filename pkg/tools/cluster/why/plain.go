package why

import "strings"

// lines returns the lines of a text as its source printed them, also those that are escaped in it.
func lines(text string) []string { return strings.Split(plain(text), "\n") }

// plain returns a text as its source printed it, whoever quotes it: without the escapes of quotes
// around it, of JSON in JSON (RFC 8259, 7) and of XML (XML 1.0, 4.6), and without the colours of a
// terminal (ECMA-48, 8.3.117).
func plain(text string) string {
	if strings.Contains(text, `\`) {
		text = unescaped(text)
	}

	if strings.Contains(text, "&") {
		text = entities.Replace(text)
	}

	if strings.Contains(text, colour) {
		text = uncoloured(text)
	}

	return text
}

// entities are those that XML defines, and the numbers that encoding/xml writes in their place.
var entities = strings.NewReplacer(
	"&quot;", `"`, "&#34;", `"`, "&apos;", "'", "&#39;", "'", "&lt;", "<", "&gt;", ">", "&amp;", "&",
)

// unescaped returns a text without escapes, however often it was escaped: a sign with several
// backslashes before it is the sign. Other backslashes stay, as those of a path of Windows.
func unescaped(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, `\`)
		b.WriteString(before)
		if !found {
			return b.String()
		}

		sign, size := escapedSign(strings.TrimLeft(rest, `\`))
		run := len(rest) - len(strings.TrimLeft(rest, `\`)) + 1
		if size == 0 {
			b.WriteString(strings.Repeat(`\`, run))
		}

		b.WriteString(sign)
		text = rest[run-1+size:]
	}
}

// escapedSign returns the sign that a text after a backslash begins with, and the size of its
// escape; 0 if it is none.
func escapedSign(text string) (sign string, size int) {
	switch {
	case text == "":
	case text[0] == 'n':
		return "\n", 1
	case text[0] == '"' || text[0] == '\'' || text[0] == '/':
		return text[:1], 1
	}

	for escape, sign := range unicodeEscapes {
		if len(text) >= len(escape) && strings.EqualFold(text[:len(escape)], escape) {
			return sign, len(escape)
		}
	}

	return "", 0
}

// unicodeEscapes are those that encoding/json and loggers write in place of signs of ASCII.
var unicodeEscapes = map[string]string{
	"u0022": `"`, "u0026": "&", "u0027": "'", "u003c": "<", "u003e": ">", "u001b": "\x1b",
}

// colour begins the sequence that sets a terminal's colour, which a letter ends.
const colour = "\x1b["

// uncoloured returns a text without colours.
func uncoloured(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, colour)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = strings.TrimLeft(rest, "0123456789;")
		text = text[min(1, len(text)):]
	}
}

// wrapped joins the lines that a terminal, or who pasted them, broke.
type wrapped struct {
	last string // the line before, if it is long enough to be broken
}

// minWidth is the shortest line that counts as broken: no terminal is narrower.
const minWidth = 60

// join returns the line, or the one before with it, if only both together have a message of
// the table.
func (w *wrapped) join(table *index, line string) string {
	last := w.last
	w.last = ""
	if len(line) >= minWidth {
		w.last = line
	}

	if last == "" || line == "" || strings.ContainsRune("[{<", rune(line[0])) {
		return line
	}

	rest := strings.TrimLeft(line, " \t")
	for _, joined := range []string{last + rest, last + " " + rest} {
		if table.find(joined) != nil && table.find(last) == nil && table.find(rest) == nil {
			w.last = ""
			return joined
		}
	}

	return line
}
