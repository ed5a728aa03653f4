package xmledit

import "strings"

// scanAttrs finds the attributes in a part of a tag that holds nothing else:
// names, values and quotes, without the values' meaning. Unlike encoding/xml
// it insists on a blank before each attribute (XML 1.0, production STag).
func scanAttrs(text string, within Span) ([]Attr, error) {
	var attrs []Attr
	at := within.Start
	for {
		name := skip(text, at, within.End)
		if name == within.End {
			return attrs, nil
		}
		if name == at {
			return nil, errorAt(text, at, "a blank is missing before an attribute")
		}
		a, err := scanAttr(text, Span{name, within.End})
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, a)
		at = a.Whole.End
	}
}

// scanAttr reads the attribute that within starts with.
func scanAttr(text string, within Span) (Attr, error) {
	rest := text[within.Start:within.End]
	length := strings.IndexAny(rest, space+"=")
	if length <= 0 {
		return Attr{}, errorAt(text, within.Start, "an attribute without a value")
	}
	equals := skip(text, within.Start+length, within.End)
	if equals == within.End || text[equals] != '=' {
		return Attr{}, errorAt(text, within.Start, "an attribute without a value")
	}
	open := skip(text, equals+1, within.End)
	if open == within.End || (text[open] != '"' && text[open] != '\'') {
		return Attr{}, errorAt(text, open, "the value of an attribute without quotes")
	}
	value := strings.IndexByte(text[open+1:within.End], text[open])
	if value < 0 {
		return Attr{}, errorAt(text, open, "the value of an attribute without its closing quote")
	}
	inside := Span{open + 1, open + 1 + value}
	return Attr{
		Name:  text[within.Start : within.Start+length],
		Whole: Span{within.Start, inside.End + 1},
		Text:  inside,
		Quote: text[open],
	}, nil
}

// skip is the offset of the first byte from at on that is no blank, at most end.
func skip(text string, at, end int) int {
	for at < end && strings.IndexByte(space, text[at]) >= 0 {
		at++
	}
	return at
}
