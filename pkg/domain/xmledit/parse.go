package xmledit

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Parse reads a document. It takes time and memory in proportion to the bytes.
//
// The error is an *Error with the place for: an empty document; one over
// MaxBytes; bytes that are not UTF-8 or not a character of XML; a declared
// encoding other than UTF-8; a document type or any other declaration; an
// entity other than XML's own five; tags that are not closed or not in order; a
// duplicate attribute; elements nested deeper than 256; text or a second
// element outside the root; and whatever else is not well formed. A byte order
// mark at the start is accepted, and kept.
//
// The tests compare it with encoding/xml, which reads the same in all that
// Parse accepts.
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
	open  []*Element          // the elements that are not closed yet
	scope map[string][]string // prefix -> the URIs that it is bound to, innermost last
	attrs []Attr              // of the open tag that is being read
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
	if strings.HasPrefix(p.text[at:], "<?xml") && nameEnd(p.text, at+len(openInstruction)) == at+len("<?xml") {
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
		return p.fail(e.Open.Start, "<%s> is never closed", topology.Abridge(e.Name))
	}
	if p.root == nil {
		return p.fail(len(p.text), "the document has no element")
	}
	return nil
}

// next reads what starts at offset at and returns the offset after it.
func (p *parser) next(at int) (int, error) {
	rest := p.text[at:]
	switch {
	case rest[0] != '<':
		return p.characters(at)
	case strings.HasPrefix(rest, "</"):
		return p.end(at)
	case strings.HasPrefix(rest, openCDATA) && len(p.open) == 0:
		return 0, p.fail(at, "text outside the root element")
	case strings.HasPrefix(rest, openInstruction) || strings.HasPrefix(rest, "<!"):
		return markupEnd(p.text, at)
	}
	return p.start(at)
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
	switch {
	case e.Name == "":
		return 0, p.fail(at, "< without the name of a tag")
	case len(p.open) == maxDepth:
		return 0, p.fail(at, "elements are nested deeper than %d", maxDepth)
	case len(p.open) > 0:
		e.Parent = p.open[len(p.open)-1]
		e.Parent.Children = append(e.Parent.Children, e)
	case p.root != nil:
		return 0, p.fail(at, "second root element <%s>", topology.Abridge(e.Name))
	default:
		p.root = e
	}
	end, err := p.openTag(e, name+len(e.Name))
	if err != nil {
		return 0, err
	}
	e.Open = Span{at, end}
	e.Whole = e.Open
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

// openTag reads e's open tag from offset at, after its name, and returns the
// offset after it.
func (p *parser) openTag(e *Element, at int) (int, error) {
	attrs, end, err := attributes(p.text, at, p.attrs[:0])
	if err != nil {
		return 0, err
	}
	p.attrs = attrs
	if p.text[end] == '?' {
		return 0, p.fail(end, "a tag cannot end with ?>")
	}
	if i := duplicate(attrs); i >= 0 {
		return 0, p.fail(attrs[i].Whole.Start, "duplicate attribute %s in <%s>",
			topology.Abridge(attrs[i].Name), topology.Abridge(e.Name))
	}
	e.Attrs = append([]Attr(nil), attrs...)
	if p.text[end] == '/' {
		end += len("/")
	}
	return end + len(">"), nil
}

// duplicate is the position of the first attribute whose name is that of one
// before it, or -1. Most elements have so few that comparing all pairs is
// faster than a set.
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
		return 0, p.fail(at, "</%s> closes no element", topology.Abridge(name))
	}
	e := p.open[len(p.open)-1]
	if e.Name != name {
		return 0, p.fail(at, "</%s> where </%s> is expected", topology.Abridge(name), topology.Abridge(e.Name))
	}
	e.Close = Span{at, end}
	e.Whole.End = end
	p.open = p.open[:len(p.open)-1]
	p.unbind(e)
	return end, nil
}
