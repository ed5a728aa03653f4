// Package xmledit changes an XML document without rewriting it. Parse records the spans of all
// elements and attributes; edits are splices at these spans, so that all else stays byte for
// byte: comments, CDATA, quotes, newlines, the order of attributes.
//
// It reads XML 1.0 in UTF-8, but nothing that another parser could read differently: see Parse.
package xmledit

import (
	"fmt"
	"strings"
)

// MaxBytes is the size of the largest document that Parse accepts.
const MaxBytes = 8 << 20

// maxDepth limits the nesting of elements: libxml2 (parser.c, xmlParserMaxDepth) takes one
// more, and libvirt does not lift its limit.
const maxDepth = 256

// Span is the half-open range [Start, End) of byte offsets in a document.
type Span struct {
	Start, End int
}

// span makes a Span of the offsets that a document holds: most of its memory, so in 32 bits.
func span(start, end int32) Span { return Span{int(start), int(end)} }

// Document is a parsed document. It is read-only.
type Document struct {
	text string
	root *Element
}

// Root returns the root element.
func (d *Document) Root() *Element { return d.root }

// Element is an element of a document.
type Element struct {
	Name  string // as written, with its prefix
	Local string // Name without its prefix
	Space string // the URI of its namespace, "" for none; an undeclared prefix stands for itself

	Attrs    []Attr
	Parent   *Element // nil for the root
	Children []*Element

	start, openEnd, closeStart, end int32 // see Whole, Open and Close
}

// Whole spans the < of the open tag to the > of the close tag.
func (e *Element) Whole() Span { return span(e.start, e.end) }

// Open returns the open tag; all of the element when it closes itself.
func (e *Element) Open() Span { return span(e.start, e.openEnd) }

// Close returns the close tag; empty when the element closes itself.
func (e *Element) Close() Span { return span(e.closeStart, e.end) }

// Attr is an attribute of an element.
type Attr struct {
	Name  string // as written, with its prefix
	Value string // with its references resolved

	start, textStart, textEnd int32 // see Whole and Text
}

// Whole returns the span from the name to the closing quote.
func (a *Attr) Whole() Span { return span(a.start, a.textEnd+1) }

// Text returns the span between the quotes.
func (a *Attr) Text() Span { return span(a.textStart, a.textEnd) }

// Is reports whether e has the name local in the namespace space, "" for none.
func (e *Element) Is(space, local string) bool { return e.Local == local && e.Space == space }

// Child returns the first child without a namespace that has the name local, or nil. A nil
// element has no children.
func (e *Element) Child(local string) *Element {
	if e == nil {
		return nil
	}

	for _, child := range e.Children {
		if child.Is("", local) {
			return child
		}
	}

	return nil
}

// Attr returns the attribute with the name, as written, or nil. A nil element has none.
func (e *Element) Attr(name string) *Attr {
	if e == nil {
		return nil
	}

	for i := range e.Attrs {
		if e.Attrs[i].Name == name {
			return &e.Attrs[i]
		}
	}

	return nil
}

// Value returns the value of an attribute, "" when it is absent.
func (e *Element) Value(name string) string {
	if a := e.Attr(name); a != nil {
		return a.Value
	}
	return ""
}

// ClosesItself reports whether e is written as <e/>.
func (e *Element) ClosesItself() bool { return e.openEnd == e.end }

// Text returns the character data of e, with CDATA included and references resolved, without
// that of its children. A nil element has none.
func (d *Document) Text(e *Element) string {
	if e == nil || e.ClosesItself() {
		return ""
	}

	var text strings.Builder
	from := e.Open().End
	for _, child := range e.Children {
		text.WriteString(characters(d.text[from:child.Whole().Start]))
		from = child.Whole().End
	}

	text.WriteString(characters(d.text[from:e.Close().Start]))
	return text.String()
}

// Error is a fault of a document.
type Error struct {
	Line   int // from 1
	Column int // in bytes, from 1
	Reason string
}

// Error returns line, column and reason.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Reason)
}

// Errorf makes an error about the byte at offset.
func (d *Document) Errorf(offset int, format string, args ...any) *Error {
	return errorAt(d.text, offset, format, args...)
}

func errorAt(text string, offset int, format string, args ...any) *Error {
	before := text[:offset]
	return &Error{
		Line:   1 + strings.Count(before, "\n"),
		Column: len(before) - strings.LastIndexByte(before, '\n'),
		Reason: fmt.Sprintf(format, args...),
	}
}
