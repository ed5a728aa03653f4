package xmledit

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

const (
	bom   = "\ufeff"
	space = " \t\r\n" // XML 1.0, production S
)

// Parse reads a document. It takes time and memory in proportion to the bytes.
//
// The error is an *Error with the place for: an empty document; one over
// MaxBytes; bytes that are not UTF-8 or no character of XML; a declared
// encoding other than UTF-8; a document type or any other declaration; an
// entity beyond XML's own five; tags that are not closed or not in order; an
// attribute that stands twice in a tag; elements nested deeper than 256; text
// or a second element outside the root; and whatever else is not well formed.
// A byte order mark in front is accepted, and kept.
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

// parser builds the tree from the tokens of encoding/xml, which tile the input
// exactly, and checks what Decoder.RawToken does not.
type parser struct {
	text  string
	from  int // length of the byte order mark
	root  *Element
	open  []frame             // the elements that are not closed yet
	scope map[string][]string // prefix -> the URIs that it is bound to, innermost last
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
	if strings.HasPrefix(p.text, bom) {
		p.from = len(bom)
	}
	decoder := xml.NewDecoder(strings.NewReader(p.text[p.from:]))
	for {
		start := p.from + int(decoder.InputOffset())
		if err := p.refuse(start); err != nil {
			return err
		}
		token, err := decoder.RawToken()
		end := p.from + int(decoder.InputOffset())
		if errors.Is(err, io.EOF) {
			return p.finish()
		}
		if err != nil {
			return p.syntax(end, err)
		}
		if err := p.token(token, Span{start, end}); err != nil {
			return err
		}
	}
}

// syntax places an error of the decoder at the last byte that it has read.
func (p *parser) syntax(end int, err error) error {
	reason := err.Error()
	var syntax *xml.SyntaxError
	if errors.As(err, &syntax) {
		reason = syntax.Msg
	}
	const limit = 100 // the decoder quotes names of any length
	if len(reason) > limit {
		reason = strings.ToValidUTF8(reason[:limit], "") + "…"
	}
	return p.fail(max(end-1, 0), "%s", reason)
}

// refuse looks at what starts at offset before the decoder does.
func (p *parser) refuse(offset int) error {
	rest := p.text[offset:]
	switch {
	case strings.HasPrefix(rest, "<![CDATA["):
		if len(p.open) == 0 {
			return p.fail(offset, "text outside the root element")
		}
	case strings.HasPrefix(rest, "<!") && !strings.HasPrefix(rest, "<!--"):
		return p.fail(offset, "a document type or other declaration is not accepted")
	case strings.HasPrefix(rest, "<?"):
		return p.declaration(offset)
	}
	return nil
}

// declaration checks the XML declaration. The decoder's own look at it misses
// an encoding that is written with blanks around its equals sign.
func (p *parser) declaration(offset int) error {
	content, _, _ := strings.Cut(p.text[offset+len("<?"):], "?>")
	target := content
	if i := strings.IndexAny(content, space); i >= 0 {
		target = content[:i]
	}
	if !strings.EqualFold(target, "xml") {
		return nil
	}
	if offset != p.from || target != "xml" {
		return p.fail(offset, "an XML declaration is accepted at the very start only")
	}
	start := offset + len("<?xml")
	spans, err := scanAttrs(p.text, Span{start, start + len(content) - len("xml")})
	if err != nil {
		return err
	}
	for _, a := range spans {
		value := p.text[a.Text.Start:a.Text.End]
		if a.Name == "encoding" && !strings.EqualFold(value, "utf-8") {
			return p.fail(a.Text.Start, "encoding %q is not utf-8", Abridge(value))
		}
	}
	return nil
}

func (p *parser) token(token xml.Token, at Span) error {
	switch token := token.(type) {
	case xml.StartElement:
		return p.start(token, at)
	case xml.EndElement:
		return p.end(token, at)
	case xml.CharData:
		return p.characters(at)
	}
	return nil // a comment or a processing instruction
}

func (p *parser) characters(at Span) error {
	if len(p.open) > 0 {
		return nil
	}
	outside := p.text[at.Start:at.End]
	if rest := strings.TrimLeft(outside, space); rest != "" {
		return p.fail(at.End-len(rest), "text outside the root element")
	}
	return nil
}

func (p *parser) start(token xml.StartElement, at Span) error {
	e := &Element{Name: qualified(token.Name), Whole: at, Open: at}
	switch {
	case len(p.open) > 0:
		e.Parent = p.open[len(p.open)-1].element
		e.Parent.Children = append(e.Parent.Children, e)
	case p.root != nil:
		return p.fail(at.Start, "a second root element <%s>", Abridge(e.Name))
	default:
		p.root = e
	}
	if len(p.open) == maxDepth {
		return p.fail(at.Start, "elements are nested deeper than %d", maxDepth)
	}
	if err := p.attributes(e, token.Attr); err != nil {
		return err
	}
	p.open = append(p.open, frame{element: e, prefixes: p.bind(e)})
	p.name(e)
	return nil
}

func (p *parser) attributes(e *Element, values []xml.Attr) error {
	end := e.Open.End - len(">")
	if p.text[end-1] == '/' {
		end--
	}
	attrs, err := scanAttrs(p.text, Span{e.Open.Start + len("<") + len(e.Name), end})
	if err != nil {
		return err
	}
	if len(attrs) != len(values) {
		return p.fail(e.Open.Start, "the attributes of <%s> cannot be told apart", Abridge(e.Name))
	}
	for i := range attrs {
		attrs[i].Value = values[i].Value
	}
	if i := twice(attrs); i >= 0 {
		return p.fail(attrs[i].Whole.Start, "attribute %s stands twice in <%s>",
			Abridge(attrs[i].Name), Abridge(e.Name))
	}
	e.Attrs = attrs
	return nil
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

func (p *parser) end(token xml.EndElement, at Span) error {
	name := qualified(token.Name)
	if len(p.open) == 0 {
		return p.fail(at.Start, "</%s> closes no element", Abridge(name))
	}
	top := p.open[len(p.open)-1]
	if top.element.Name != name {
		return p.fail(at.Start, "</%s> stands where </%s> is due", Abridge(name), Abridge(top.element.Name))
	}
	top.element.Close = at
	top.element.Whole.End = at.End
	p.open = p.open[:len(p.open)-1]
	p.unbind(top.prefixes)
	return nil
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

func qualified(name xml.Name) string {
	if name.Space == "" {
		return name.Local
	}
	return name.Space + ":" + name.Local
}
