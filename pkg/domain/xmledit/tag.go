package xmledit

import (
	"strings"

	"hook-sidecar/pkg/topology"
)

// attributes reads attributes from offset at, after the name of a tag, up to
// what closes the tag: the offset of a > or of a closing /> or ?> where an
// attribute could start (XML 1.0, productions STag, EmptyElemTag, XMLDecl). They
// are appended to those given.
func attributes(text string, at int, attrs []Attr) ([]Attr, int, error) {
	for {
		next := skip(text, at)
		switch {
		case next == len(text):
			return nil, 0, errorAt(text, next, "the document ends inside a tag")
		case text[next] == '>' || strings.HasPrefix(text[next:], "/>") || strings.HasPrefix(text[next:], "?>"):
			return attrs, next, nil
		case next == at:
			return nil, 0, errorAt(text, at, "whitespace is missing before an attribute")
		}
		a, err := attribute(text, next)
		if err != nil {
			return nil, 0, err
		}
		attrs = append(attrs, a)
		at = a.Whole().End
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
		return Attr{}, errorAt(text, start, "attribute %s without a value", topology.Abridge(a.Name))
	}
	open := skip(text, equals+1)
	if open == len(text) || (text[open] != '"' && text[open] != '\'') {
		return Attr{}, errorAt(text, open, "the value of attribute %s is not in quotes", topology.Abridge(a.Name))
	}
	length := strings.IndexByte(text[open+1:], text[open])
	if length < 0 {
		return Attr{}, errorAt(text, open, "the value of attribute %s is never closed", topology.Abridge(a.Name))
	}
	value := Span{open + 1, open + 1 + length}
	a.start, a.textStart, a.textEnd = int32(start), int32(value.Start), int32(value.End)
	if i := strings.IndexByte(text[value.Start:value.End], '<'); i >= 0 {
		return Attr{}, errorAt(text, value.Start+i, "an unescaped < in the value of attribute %s", topology.Abridge(a.Name))
	}
	var err error
	a.Value, err = resolve(text, value, true)
	return a, err
}
