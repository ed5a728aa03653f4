package why

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/cluster/redact"
)

// show returns the line that is shown of an entry: the part around what names its cause.
func (n entry) show() Line {
	line := Line{Source: n.source}
	if !n.isDerived {
		line.Time = n.at
	}

	if n.passed != "" && n.line == 0 && n.text == "" {
		return line
	}

	text, at := strings.ReplaceAll(n.safeLine(), "\t", " "), 0
	if n.cause != nil {
		at, _ = n.cause.find(text)
		// it was removed with what is before it
		if place, _ := n.cause.find(n.matched(text)); place < 0 {
			_, message := n.cause.find(n.matched(n.plainLine()))
			text = strings.TrimSpace(text + " " + strings.ReplaceAll(message, "*", redact.Mark))
			at = -1
		}
	}

	line.Text, line.Speaker = quote(text, at), redact.Text(n.speaker(n.plainLine()))
	return line
}

// safeLine returns the line of an entry as its source printed it, without secrets. They are removed
// before the text's quotes are, which say where a secret ends, and again after it: XML hides quotes.
func (n entry) safeLine() string {
	safe := lines(redact.Text(plain(redact.Text(n.text))))
	isNamed := func(line string) bool { return n.cause != nil && n.isNamedIn(line) }
	switch i := slices.IndexFunc(safe, isNamed); {
	case len(safe) == len(lines(n.text)):
		return strings.TrimSpace(safe[n.line])
	case i >= 0:
		return strings.TrimSpace(safe[i])
	}

	return strings.TrimSpace(safe[0])
}

// isNamedIn reports whether a line names the entry's cause.
func (n entry) isNamedIn(line string) bool {
	at, _ := n.cause.find(n.matched(line))
	return at >= 0
}

// isRemoved reports whether nothing is left of an error without its secrets.
func (n entry) isRemoved() bool { return strings.Trim(n.show().Text, redact.Mark+" ") == "" }

// isPrivate reports whether an error is one of cloud-init in the guest, or about a password, which
// may be anywhere in it.
func isPrivate(n entry) bool {
	words := []string{"cloud-init", "cloudinit", "passw", "secret", "token", "ssh-"}
	return hasAny(strings.ToLower(n.plainLine()), words)
}

// quote returns the part of a text from shortly before a place in it. What is long is cut in its
// middle: QEMU says at the end of a line why it refuses what it names before.
func quote(text string, at int) string {
	const before, limit, end = 240, 480, 160
	if start := min(at-before, len(text)-limit); start > 0 {
		text = redact.Mark + text[start:]
	}

	if len(text) > limit+len(redact.Mark) {
		text = text[:limit-end] + redact.Mark + text[len(text)-end:]
	}

	return strings.ToValidUTF8(text, "")
}
