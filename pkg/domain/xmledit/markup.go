package xmledit

import (
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/words"
)

const (
	bom = "\ufeff"

	openComment, closeComment         = "<!--", "-->"
	openCDATA, closeCDATA             = "<![CDATA[", "]]>"
	openInstruction, closeInstruction = "<?", "?>"
)

// markupEnd returns the offset after the comment, CDATA section or processing instruction at
// offset at (XML 1.0, 2.5 to 2.7).
func markupEnd(text string, at int) (int, error) {
	switch rest := text[at:]; {
	case strings.HasPrefix(rest, openComment):
		return commentEnd(text, at)
	case strings.HasPrefix(rest, openCDATA):
		return closed(text, at, openCDATA, closeCDATA, "a CDATA section")
	case strings.HasPrefix(rest, openInstruction):
		return instructionEnd(text, at)
	}

	return 0, errorAt(text, at, "a document type or other declaration is not accepted")
}

func commentEnd(text string, at int) (int, error) {
	inside := at + len(openComment)
	i := strings.Index(text[inside:], "--")
	if i < 0 {
		return 0, errorAt(text, at, "a comment is never closed")
	}
	if !strings.HasPrefix(text[inside+i:], closeComment) {
		return 0, errorAt(text, inside+i, "-- inside a comment")
	}

	return inside + i + len(closeComment), nil
}

// instructionEnd returns the offset after a processing instruction. Its target must not be xml,
// in whatever case (production PITarget).
func instructionEnd(text string, at int) (int, error) {
	target := at + len(openInstruction)
	end := nameEnd(text, target)
	switch {
	case end == target:
		return 0, errorAt(text, at, "a processing instruction without a target")
	case strings.EqualFold(text[target:end], "xml"):
		return 0, errorAt(text, at, "an XML declaration is accepted at the very start only")
	case !strings.HasPrefix(text[end:], closeInstruction) && skip(text, end) == end:
		return 0, errorAt(text, end,
			"whitespace is missing after the target of a processing instruction")
	}

	return closed(text, at, text[at:end], closeInstruction, "a processing instruction")
}

// closed returns the offset after the close of the markup that opens at offset at.
func closed(text string, at int, open, close, what string) (int, error) {
	inside := at + len(open)
	i := strings.Index(text[inside:], close)
	if i < 0 {
		return 0, errorAt(text, at, "%s is never closed", what)
	}

	return inside + i + len(close), nil
}

// declaration checks the XML declaration at offset at (productions XMLDecl to SDDecl) and
// returns the offset after it.
func declaration(text string, at int) (int, error) {
	attrs, end, err := attributes(text, at+len("<?xml"), nil)
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(text[end:], closeInstruction) {
		return 0, errorAt(text, end, "an XML declaration must end with ?>")
	}
	if len(attrs) == 0 || attrs[0].Name != "version" {
		return 0, errorAt(text, at, "an XML declaration must begin with the version")
	}

	last := -1
	for _, a := range attrs {
		// Each name may come once, and in this order. An unknown one has the index -1, which is
		// never later than the last.
		i := slices.Index([]string{"version", "encoding", "standalone"}, a.Name)
		if i <= last {
			return 0, errorAt(text, a.Whole().Start, "unexpected %s in an XML declaration",
				words.Abridge(a.Name))
		}

		last = i
		written := text[a.Text().Start:a.Text().End]
		switch {
		case a.Name == "version" && written != "1.0":
			return 0, errorAt(text, a.Text().Start, "invalid XML version %q: must be 1.0",
				words.Abridge(written))

		case a.Name == "encoding" && !strings.EqualFold(written, "utf-8"):
			return 0, errorAt(text, a.Text().Start, "invalid encoding %q: must be utf-8",
				words.Abridge(written))

		case a.Name == "standalone" && written != "yes" && written != "no":
			return 0, errorAt(text, a.Text().Start, "invalid standalone %q: must be yes or no",
				words.Abridge(written))
		}
	}

	return end + len(closeInstruction), nil
}

// characters returns the character data of content without elements. There are no errors:
// Parse has read the same bytes.
func characters(content string) string {
	if !strings.ContainsAny(content, "<&\r") {
		return content
	}

	var all strings.Builder
	for at := 0; at < len(content); {
		end := textEnd(content, at)
		text, _ := resolve(content, Span{at, end}, false)
		all.WriteString(text)
		if at = end; at == len(content) {
			break
		}

		end, _ = markupEnd(content, at)
		if strings.HasPrefix(content[at:], openCDATA) {
			// References do not count in it, but its newlines do (2.7, 2.11).
			inside := content[at+len(openCDATA) : end-len(closeCDATA)]
			all.WriteString(newlines.Replace(inside))
		}

		at = end
	}

	return all.String()
}

// newlines makes all newlines those of XML (2.11).
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// textEnd returns the offset of the first < from at on, or the end.
func textEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '<'); i >= 0 {
		return at + i
	}
	return len(text)
}

// resolve returns the text or the value at a span with its references resolved and each newline
// as a line feed (XML 1.0, 2.11). In a value, tabs and newlines that are not written as
// references count as spaces (3.3.3).
func resolve(text string, at Span, value bool) (string, error) {
	plain := text[at.Start:at.End]
	if !isSpecial(plain, value) {
		return plain, nil
	}

	var resolved strings.Builder
	for i := at.Start; i < at.End; {
		switch b := text[i]; {
		case b == '&':
			r, end, err := reference(text, Span{i, at.End})
			if err != nil {
				return "", err
			}
			resolved.WriteRune(r)
			i = end
			continue

		case b == '\r' && strings.HasPrefix(text[i:at.End], "\r\n"): // its line feed follows
		case value && isSpace(b):
			resolved.WriteByte(' ')
		case b == '\r':
			resolved.WriteByte('\n')
		default:
			resolved.WriteByte(b)
		}

		i++
	}

	return resolved.String(), nil
}

// isSpecial reports whether resolving changes a text or a value.
func isSpecial(plain string, value bool) bool {
	for i := range len(plain) {
		switch plain[i] {
		case '&', '\r':
			return true
		case '\n', '\t':
			if value {
				return true
			}
		}
	}

	return false
}

// reference resolves the reference at the start of a span, and returns the offset after it.
// Without a document type XML has five entities. An error does not quote it: in a password that is
// not escaped it is a part of that.
func reference(text string, within Span) (rune, int, error) {
	start := within.Start + len("&")
	length := max(0, strings.IndexByte(text[start:within.End], ';'))
	name, end := text[start:start+length], start+length+len(";")
	switch name {
	case "lt":
		return '<', end, nil
	case "gt":
		return '>', end, nil
	case "amp":
		return '&', end, nil
	case "apos":
		return '\'', end, nil
	case "quot":
		return '"', end, nil
	}

	digits, isNumber := strings.CutPrefix(name, "#")
	switch {
	case !isNumber && (name == "" || nameEnd(text, start) != start+length):
		return 0, 0, errorAt(text, within.Start, "an unescaped &")
	case !isNumber:
		return 0, 0, errorAt(text, within.Start, "unknown entity: must be one of amp, lt, gt, apos, quot")
	}

	base := 10
	if hex, found := strings.CutPrefix(digits, "x"); found {
		digits, base = hex, 16
	}

	code, err := strconv.ParseUint(digits, base, 31)
	if err != nil || !isCharacter(rune(code)) {
		return 0, 0, errorAt(text, within.Start, "a reference that refers to no character of XML")
	}

	return rune(code), end, nil
}
