package xmledit

import "strings"

// Parse reads a document. It takes time and memory in proportion to the bytes.
//
// The error is an *Error with the place for: an empty document; one over
// MaxBytes; bytes that are not UTF-8 or no character of XML; a declared
// encoding other than UTF-8; a document type or any other declaration; an
// entity beyond XML's own five; tags that are not closed or not in order; an
// attribute that stands twice in a tag; elements nested deeper than 256; text
// or a second element outside the root; and whatever else is not well formed.
// A byte order mark in front is accepted, and kept.
//
// The tests hold it to encoding/xml, which reads the same in all that Parse
// accepts.
func Parse(src []byte) (*Document, error) {
	if len(src) > MaxBytes {
		return nil, errorAt(string(src[:MaxBytes]), MaxBytes,
			"the document has %d bytes, more than %d", len(src), MaxBytes)
	}
	p := parser{text: string(src), scope: map[string][]string{"xml": {"http://www.w3.org/XML/1998/namespace"}}}
	if err := p.parse(); err != nil {
		return nil, err
	}
	return &Document{text: p.text, root: p.root}, nil
}

// parser builds the tree.
type parser struct {
	text  string
	root  *Element
	open  []frame             // the elements that are not closed yet
	scope map[string][]string // prefix -> the URIs that it is bound to, innermost last
	attrs []Attr              // of the open tag that is being read
}

type frame struct {
	element  *Element
	prefixes []string // what the element binds
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
	var err error
	if rest := p.text[at:]; strings.HasPrefix(rest, "<?xml") && nameEnd(p.text, at+len(openInstruction)) == at+len("<?xml") {
		if at, err = declaration(p.text, at); err != nil {
			return err
		}
	}
	for at < len(p.text) {
		if at, err = p.next(at); err != nil {
			return err
		}
	}
	return p.finish()
}

// next reads what starts at offset at and returns the offset behind it.
func (p *parser) next(at int) (int, error) {
	rest := p.text[at:]
	switch {
	case rest[0] != '<':
		return p.characters(at)
	case strings.HasPrefix(rest, "</"):
		return p.end(at)
	case strings.HasPrefix(rest, openCDATA) && len(p.open) == 0:
		return 0, p.fail(at, "text outside the root element")
	case strings.HasPrefix(rest, openInstruction):
		return p.instruction(at)
	case strings.HasPrefix(rest, "<!"):
		return markupEnd(p.text, at)
	}
	return p.start(at)
}

// instruction reads a processing instruction. Its target may not be xml, in
// whatever case (production PITarget).
func (p *parser) instruction(at int) (int, error) {
	target := at + len(openInstruction)
	if strings.EqualFold(p.text[target:nameEnd(p.text, target)], "xml") {
		return 0, p.fail(at, "an XML declaration is accepted at the very start only")
	}
	return markupEnd(p.text, at)
}

func (p *parser) characters(at int) (int, error) {
	end := textEnd(p.text, at)
	if len(p.open) == 0 {
		if i := skip(p.text, at); i < end {
			return 0, p.fail(i, "text outside the root element")
		}
		return end, nil
	}
	if i := strings.Index(p.text[at:end], closeCDATA); i >= 0 {
		return 0, p.fail(at+i, "%s outside a CDATA section", closeCDATA)
	}
	_, err := resolve(p.text, Span{at, end}, false)
	return end, err
}

func (p *parser) start(at int) (int, error) {
	name := at + len("<")
	e := &Element{Name: p.text[name:nameEnd(p.text, name)]}
	if e.Name == "" {
		return 0, p.fail(at, "a < that starts no tag")
	}
	switch {
	case len(p.open) > 0:
		e.Parent = p.open[len(p.open)-1].element
		e.Parent.Children = append(e.Parent.Children, e)
	case p.root != nil:
		return 0, p.fail(at, "a second root element <%s>", Abridge(e.Name))
	default:
		p.root = e
	}
	if len(p.open) == maxDepth {
		return 0, p.fail(at, "elements are nested deeper than %d", maxDepth)
	}
	end, closesItself, err := p.openTag(e, name+len(e.Name))
	if err != nil {
		return 0, err
	}
	e.Open = Span{at, end}
	e.Whole = e.Open
	prefixes, err := p.bind(e)
	if err != nil {
		return 0, err
	}
	p.name(e)
	if closesItself {
		p.unbind(prefixes)
	} else {
		p.open = append(p.open, frame{e, prefixes})
	}
	return end, nil
}

// openTag reads e's open tag from offset at, behind its name, and returns the
// offset behind it and whether it closes the element too.
func (p *parser) openTag(e *Element, at int) (end int, closesItself bool, err error) {
	attrs, end, err := attributes(p.text, at, p.attrs[:0])
	if err != nil {
		return 0, false, err
	}
	p.attrs = attrs
	if p.text[end] == '?' {
		return 0, false, p.fail(end, "a tag cannot end with ?>")
	}
	if i := twice(attrs); i >= 0 {
		return 0, false, p.fail(attrs[i].Whole.Start, "attribute %s stands twice in <%s>",
			Abridge(attrs[i].Name), Abridge(e.Name))
	}
	e.Attrs = append([]Attr(nil), attrs...)
	closesItself = p.text[end] == '/'
	if closesItself {
		end += len("/")
	}
	return end + len(">"), closesItself, nil
}

// twice is the position of the first attribute whose name stands before it, or
// -1. Most elements have so few that looking at each pair beats a set.
func twice(attrs []Attr) int {
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
	for i := range attrs {
		if seen[attrs[i].Name] {
			return i
		}
		seen[attrs[i].Name] = true
	}
	return -1
}

func (p *parser) end(at int) (int, error) {
	start := at + len("</")
	name := p.text[start:nameEnd(p.text, start)]
	end := skip(p.text, start+len(name))
	if name == "" || end == len(p.text) || p.text[end] != '>' {
		return 0, p.fail(at, "a close tag that is no name in </ and >")
	}
	end += len(">")
	if len(p.open) == 0 {
		return 0, p.fail(at, "</%s> closes no element", Abridge(name))
	}
	top := p.open[len(p.open)-1]
	if top.element.Name != name {
		return 0, p.fail(at, "</%s> stands where </%s> is due", Abridge(name), Abridge(top.element.Name))
	}
	top.element.Close = Span{at, end}
	top.element.Whole.End = end
	p.open = p.open[:len(p.open)-1]
	p.unbind(top.prefixes)
	return end, nil
}

func (p *parser) finish() error {
	if len(p.open) > 0 {
		e := p.open[len(p.open)-1].element
		return p.fail(e.Open.Start, "<%s> is never closed", Abridge(e.Name))
	}
	if p.root == nil {
		return p.fail(len(p.text), "the document has no element")
	}
	return nil
}
