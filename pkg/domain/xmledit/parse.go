package xmledit

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words"
)

// Parse reads a document, in time and memory proportional to its bytes. Tests compare it with
// encoding/xml, which reads all that Parse accepts in the same way.
//
// The error is an *Error: for a document that is not well formed or over MaxBytes, a declared
// encoding other than UTF-8, a document type or any other declaration, an entity other than XML's
// own five, and elements nested deeper than 256. A byte order mark at the start is kept.
func Parse(src []byte) (*Document, error) {
	if len(src) > MaxBytes {
		return nil, errorAt(string(src[:MaxBytes]), MaxBytes,
			"the document has %d bytes, more than %d", len(src), MaxBytes)
	}

	p := parser{
		text:  string(src),
		scope: map[string][]string{"xml": {"http://www.w3.org/XML/1998/namespace"}},
	}
	if err := p.parse(); err != nil {
		return nil, err
	}

	return &Document{text: p.text, root: p.root}, nil
}

// parser builds the tree.
type parser struct {
	text  string
	root  *Element
	open  []*Element          // the elements that are not closed yet
	scope map[string][]string // prefix -> the URIs that it is bound to, innermost last

	tag []Attr // the attributes of the tag that is read; memory for the next tag's

	// Memory for the elements that follow: one allocation for many.
	elements []Element
	attrs    []Attr
}

func (p *parser) fail(offset int, format string, args ...any) error {
	return errorAt(p.text, offset, format, args...)
}

func (p *parser) parse() error {
	if err := checkCharacters(p.text); err != nil {
		return err
	}

	at := 0
	if strings.HasPrefix(p.text, bom) {
		at = len(bom)
	}

	// A declaration is one only here, and <?xml-stylesheet is none.
	var err error
	if strings.HasPrefix(p.text[at:], "<?xml") &&
		nameEnd(p.text, at+len(openInstruction)) == at+len("<?xml") {
		if at, err = declaration(p.text, at); err != nil {
			return err
		}
	}

	for at < len(p.text) {
		if at, err = p.next(at); err != nil {
			return err
		}
	}

	if len(p.open) > 0 {
		e := p.open[len(p.open)-1]
		return p.fail(e.Open().Start, "<%s> is never closed", words.Abridge(e.Name))
	}

	if p.root == nil {
		return p.fail(len(p.text), "the document has no element")
	}

	return nil
}

// next reads what starts at offset at and returns the offset after it.
func (p *parser) next(at int) (int, error) {
	if p.text[at] != '<' {
		return p.characters(at)
	}

	switch rest := p.text[at+len("<"):]; {
	case rest == "":
	case rest[0] == '/':
		return p.end(at)
	case rest[0] == '?', rest[0] == '!':
		if strings.HasPrefix(p.text[at:], openCDATA) && len(p.open) == 0 {
			return 0, p.fail(at, "text outside the root element")
		}
		return markupEnd(p.text, at)
	}

	return p.start(at)
}

func (p *parser) characters(at int) (int, error) {
	first, end := skip(p.text, at), textEnd(p.text, at)
	switch {
	case first == end: // whitespace
		return end, nil
	case len(p.open) == 0:
		return 0, p.fail(first, "text outside the root element")
	}

	if i := strings.Index(p.text[at:end], closeCDATA); i >= 0 {
		return 0, p.fail(at+i, "%s outside a CDATA section", closeCDATA)
	}

	_, err := resolve(p.text, Span{at, end}, false)
	return end, err
}

func (p *parser) start(at int) (int, error) {
	name := at + len("<")
	if len(p.elements) == cap(p.elements) {
		p.elements = make([]Element, 0, 64) // the others stay where they are
	}

	p.elements = append(p.elements, Element{Name: p.text[name:nameEnd(p.text, name)]})
	e := &p.elements[len(p.elements)-1]
	switch {
	case e.Name == "":
		return 0, p.fail(at, "< without the name of a tag")
	case len(p.open) == maxDepth:
		return 0, p.fail(at, "elements are nested deeper than %d", maxDepth)
	case len(p.open) > 0:
		e.Parent = p.open[len(p.open)-1]
		e.Parent.Children = append(e.Parent.Children, e)

	case p.root != nil:
		return 0, p.fail(at, "second root element <%s>", words.Abridge(e.Name))
	default:
		p.root = e
	}

	end, err := p.openTag(e, name+len(e.Name))
	if err != nil {
		return 0, err
	}

	e.start, e.openEnd, e.closeStart, e.end = int32(at), int32(end), int32(end), int32(end)
	if err := p.bind(e); err != nil {
		return 0, err
	}

	if p.text[end-len("/>")] == '/' {
		p.unbind(e)
	} else {
		p.open = append(p.open, e)
	}

	return end, nil
}

// openTag reads e's open tag from after its name, and returns the offset after it.
func (p *parser) openTag(e *Element, at int) (int, error) {
	attrs, end, err := attributes(p.text, at, p.tag[:0])
	if err != nil {
		return 0, err
	}

	p.tag = attrs
	if p.text[end] == '?' {
		return 0, p.fail(end, "a tag cannot end with ?>")
	}

	if i := duplicate(attrs); i >= 0 {
		return 0, p.fail(attrs[i].Whole().Start, "duplicate attribute %s in <%s>",
			words.Abridge(attrs[i].Name), words.Abridge(e.Name))
	}

	if cap(p.attrs)-len(p.attrs) < len(attrs) {
		p.attrs = make([]Attr, 0, max(128, len(attrs)))
	}

	start := len(p.attrs)
	p.attrs = append(p.attrs, attrs...)
	e.Attrs = slices.Clip(p.attrs[start:])
	if p.text[end] == '/' {
		end += len("/")
	}

	return end + len(">"), nil
}

// duplicate returns the position of the first attribute that has the name of an earlier one, or
// -1. Most elements have so few that comparing all pairs is faster than a set.
func duplicate(attrs []Attr) int {
	if len(attrs) <= 8 {
		for i := range attrs {
			for j := range i {
				if attrs[i].Name == attrs[j].Name {
					return i
				}
			}
		}

		return -1
	}

	seen := make(map[string]bool, len(attrs))
	return slices.IndexFunc(attrs, func(a Attr) bool {
		found := seen[a.Name]
		seen[a.Name] = true
		return found
	})
}

func (p *parser) end(at int) (int, error) {
	start := at + len("</")
	name := p.text[start:nameEnd(p.text, start)]
	end := skip(p.text, start+len(name))
	if name == "" || end == len(p.text) || p.text[end] != '>' {
		return 0, p.fail(at, "invalid close tag: want </name>")
	}

	end += len(">")
	if len(p.open) == 0 {
		return 0, p.fail(at, "</%s> closes no element", words.Abridge(name))
	}

	e := p.open[len(p.open)-1]
	if e.Name != name {
		return 0, p.fail(at, "</%s> where </%s> is expected", words.Abridge(name),
			words.Abridge(e.Name))
	}

	e.closeStart, e.end = int32(at), int32(end)
	p.open = p.open[:len(p.open)-1]
	p.unbind(e)
	return end, nil
}

// attributes appends the attributes from offset at on, after the name of a tag, to attrs, and
// returns the offset of the >, /> or ?> that closes the tag (XML 1.0, productions STag,
// EmptyElemTag, XMLDecl).
func attributes(text string, at int, attrs []Attr) (all []Attr, end int, err error) {
	for {
		next := skip(text, at)
		switch {
		case next == len(text):
			return nil, 0, errorAt(text, next, "the document ends inside a tag")
		case text[next] == '>' || strings.HasPrefix(text[next:], "/>") ||
			strings.HasPrefix(text[next:], "?>"):
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
		return Attr{}, errorAt(text, start, "an attribute without a value")
	}

	open := skip(text, equals+1)
	if open == len(text) || (text[open] != '"' && text[open] != '\'') {
		return Attr{}, errorAt(text, open, "the value of an attribute is not in quotes")
	}

	length := strings.IndexByte(text[open+1:], text[open])
	if length < 0 {
		return Attr{}, errorAt(text, open, "the value of attribute %s is never closed",
			words.Abridge(a.Name))
	}

	// Offsets are kept in the text as it is, for edits; the value is without references, for
	// readers.
	value := Span{open + 1, open + 1 + length}
	a.start, a.textStart, a.textEnd = int32(start), int32(value.Start), int32(value.End)
	if i := strings.IndexByte(text[value.Start:value.End], '<'); i >= 0 {
		return Attr{}, errorAt(text, value.Start+i, "an unescaped < in the value of attribute %s",
			words.Abridge(a.Name))
	}

	var err error
	a.Value, err = resolve(text, value, true)
	return a, err
}

// bind adds the namespaces that e declares to the scope and finds e's own. It refuses
// declarations that parsers read differently or refuse: no prefix after the colon, a prefix for
// no namespace, and the prefixes xml and xmlns (Namespaces in XML 1.0, sections 3 and 5).
func (p *parser) bind(e *Element) error {
	for _, a := range e.Attrs {
		prefix, ok := declares(a)
		if !ok {
			continue
		}

		if a.Name != "xmlns" &&
			(prefix == "" || a.Value == "" || prefix == "xml" || prefix == "xmlns") {
			return p.fail(a.Whole().Start, "invalid namespace declaration %s=%q",
				words.Abridge(a.Name), words.Abridge(a.Value))
		}

		p.scope[prefix] = append(p.scope[prefix], a.Value)
	}

	// A colon at the start or the end is a part of the name.
	e.Local = e.Name
	if before, after, found := strings.Cut(e.Name, ":"); found && before != "" && after != "" {
		e.Space, e.Local = before, after
	}

	if bound := p.scope[e.Space]; len(bound) > 0 {
		e.Space = bound[len(bound)-1]
	}

	return nil
}

// unbind removes e's namespaces from the scope.
func (p *parser) unbind(e *Element) {
	for _, a := range e.Attrs {
		if prefix, ok := declares(a); ok {
			p.scope[prefix] = p.scope[prefix][:len(p.scope[prefix])-1]
		}
	}
}

// declares returns the prefix that an attribute declares a namespace for, "" for the default.
func declares(a Attr) (prefix string, ok bool) {
	if a.Name == "xmlns" {
		return "", true
	}
	return strings.CutPrefix(a.Name, "xmlns:")
}
