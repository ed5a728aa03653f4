package xmledit

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Edit replaces the bytes from Start up to End of a document, or inserts where they are equal.
type Edit struct {
	Start, End int
	New        string
}

// Apply returns a copy of the document with the edits. Their order is free, but insertions at
// one place keep theirs, and come before a replacement that starts there. Edits that overlap or
// are outside the document are an error.
func (d *Document) Apply(edits []Edit) ([]byte, error) {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})

	size := len(d.text)
	for _, e := range sorted {
		size += len(e.New)
	}

	changed, from := make([]byte, 0, size), 0
	for _, e := range sorted {
		if e.Start < 0 || e.End < e.Start || e.End > len(d.text) {
			return nil, fmt.Errorf("edit of bytes %d to %d in a document of %d bytes", e.Start,
				e.End, len(d.text))
		}

		if e.Start < from {
			return nil,
				fmt.Errorf("edit of bytes %d to %d overlaps the one before it, which ends at %d",
					e.Start, e.End, from)
		}

		changed = append(append(changed, d.text[from:e.Start]...), e.New...)
		from = e.End
	}

	return append(changed, d.text[from:]...), nil
}

// SetAttr sets an attribute: at its place and in its quotes when e has it, else after the last
// attribute and in the quotes of that one. What XML cannot hold becomes U+FFFD.
func (d *Document) SetAttr(e *Element, name, value string) Edit {
	if a := e.Attr(name); a != nil {
		return Edit{a.Text().Start, a.Text().End, Escape(value)}
	}

	at, quote := e.Open().Start+len("<")+len(e.Name), d.quote(e)
	if n := len(e.Attrs); n > 0 {
		at = e.Attrs[n-1].Whole().End
	}

	return Edit{at, at, " " + name + "=" + quote + Escape(value) + quote}
}

// RenameAttr gives an attribute another name; its value keeps its spelling.
func (d *Document) RenameAttr(a *Attr, name string) Edit {
	start := a.Whole().Start
	return Edit{start, start + len(a.Name), name}
}

// quote returns the quote of e's last attribute, or of the nearest element above with one.
func (d *Document) quote(e *Element) string {
	for ; e != nil; e = e.Parent {
		if n := len(e.Attrs); n > 0 {
			return d.text[e.Attrs[n-1].Text().End:e.Attrs[n-1].Whole().End]
		}
	}
	return `"`
}

// Escape writes a text so that it may be in an element or in quotes of either kind.
func Escape(text string) string {
	isUnusual := func(c rune) bool { return c < '-' || c > 'z' || c == '<' || c == '>' }
	if strings.IndexFunc(text, isUnusual) < 0 { // nearly all
		return text
	}

	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(text)) // a strings.Builder never fails to write
	return escaped.String()
}

// RemoveAttr removes an attribute and the whitespace before it.
func (d *Document) RemoveAttr(a *Attr) Edit {
	return Edit{d.trimmed(a.Whole().Start), a.Whole().End, ""}
}

// Replace puts an element, written as for InsertAfter, in the place of e.
func (d *Document) Replace(e *Element, element string) Edit {
	layout := d.layout(e)
	return Edit{
		e.Whole().Start, e.Whole().End, strings.TrimPrefix(layout.indent(element), layout.lead),
	}
}

// Remove removes e with the newline and the indentation before it, or the whitespace before it
// on the same line.
func (d *Document) Remove(e *Element) Edit {
	return Edit{e.Whole().Start - len(d.lastLine(e.Whole().Start)), e.Whole().End, ""}
}

// RemoveChildren removes children of parent, and parent itself where only whitespace is left in
// it, unless it is to be kept. One that was empty before Fill is again as it was.
func (d *Document) RemoveChildren(parent *Element, isGone func(*Element) bool, keep bool) []Edit {
	var edits []Edit
	was := d.was(parent)
	// The parent is empty if all children go and nothing but space is before, between and after them.
	// What Fill has put before the first child does not count.
	isEmpty, from := true, parent.Open().End
	for i, child := range parent.Children {
		isEmpty = isEmpty && (i == 0 && was != "" || d.isBlank(from, child.Whole().Start))
		from = child.Whole().End
		if isGone(child) {
			edits = append(edits, d.Remove(child))
		}
	}

	isEmpty = isEmpty && len(edits) == len(parent.Children) && d.isBlank(from, parent.Close().Start)

	switch {
	case len(edits) == 0 || !isEmpty:
		return edits
	case was != "" && !keep:
		return []Edit{{parent.Whole().Start, parent.Whole().End, was}}
	case !keep:
		return []Edit{d.Remove(parent)}
	}

	return edits
}

// isBlank reports whether only whitespace is between two offsets.
func (d *Document) isBlank(from, to int) bool { return strings.Trim(d.text[from:to], space) == "" }

// trimmed returns the start of the whitespace that ends at offset.
func (d *Document) trimmed(offset int) int {
	return len(strings.TrimRight(d.text[:offset], space))
}

// lastLine returns the whitespace that ends at offset, from its last newline on if it has one.
func (d *Document) lastLine(offset int) string {
	whitespace := d.text[d.trimmed(offset):offset]
	i := strings.LastIndexByte(whitespace, '\n')
	if i < 0 {
		return whitespace
	}

	if i > 0 && whitespace[i-1] == '\r' {
		i--
	}

	return whitespace[i:]
}
