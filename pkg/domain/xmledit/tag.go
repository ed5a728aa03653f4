package xmledit

import "strings"

const space = " \t\r\n" // production S

// attributes reads attributes from offset at, behind the name of a tag, up to
// what closes the tag: the offset of a > or of a closing /> or ?> that stands
// where an attribute could (XML 1.0, productions STag, EmptyElemTag, XMLDecl).
// They are appended to those given.
func attributes(text string, at int, attrs []Attr) ([]Attr, int, error) {
	for {
		next := skip(text, at)
		switch {
		case next == len(text):
			return nil, 0, errorAt(text, next, "the document ends inside a tag")
		case text[next] == '>' || strings.HasPrefix(text[next:], "/>") || strings.HasPrefix(text[next:], "?>"):
			return attrs, next, nil
		case next == at:
			return nil, 0, errorAt(text, at, "a blank is missing before an attribute")
		}
		a, err := attribute(text, next)
		if err != nil {
			return nil, 0, err
		}
		attrs = append(attrs, a)
		at = a.Whole.End
	}
}

// attribute reads the attribute that starts at offset start.
func attribute(text string, start int) (Attr, error) {
	end := nameEnd(text, start)
	if end == start {
		return Attr{}, errorAt(text, start, "an attribute without a name")
	}
	a := Attr{Name: text[start:end]}
	equals := skip(text, end)
	if equals == len(text) || text[equals] != '=' {
		return Attr{}, errorAt(text, start, "attribute %s without a value", Abridge(a.Name))
	}
	open := skip(text, equals+1)
	if open == len(text) || (text[open] != '"' && text[open] != '\'') {
		return Attr{}, errorAt(text, open, "the value of attribute %s is not in quotes", Abridge(a.Name))
	}
	a.Quote = text[open]
	length := strings.IndexByte(text[open+1:], a.Quote)
	if length < 0 {
		return Attr{}, errorAt(text, open, "the value of attribute %s is never closed", Abridge(a.Name))
	}
	a.Text = Span{open + 1, open + 1 + length}
	a.Whole = Span{start, a.Text.End + 1}
	if i := strings.IndexByte(text[a.Text.Start:a.Text.End], '<'); i >= 0 {
		return Attr{}, errorAt(text, a.Text.Start+i, "an unescaped < in the value of attribute %s", Abridge(a.Name))
	}
	var err error
	a.Value, err = resolve(text, a.Text, true)
	return a, err
}

// skip is the offset of the first byte from at on that is no blank.
func skip(text string, at int) int {
	for at < len(text) && isSpace(text[at]) {
		at++
	}
	return at
}

func isSpace(b byte) bool { return strings.IndexByte(space, b) >= 0 }
