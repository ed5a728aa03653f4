package xmledit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Edit replaces the bytes from Start up to End of a document; with Start equal
// to End it inserts.
type Edit struct {
	Start, End int
	New        string
}

// Apply makes the edits in src and returns the changed copy. Their order is
// free, but insertions at one place come out in the order given, and before a
// replacement that starts there. It is an error when an edit lies outside src
// or two edits overlap.
func Apply(src []byte, edits []Edit) ([]byte, error) { return apply(string(src), edits) }

func apply(text string, edits []Edit) ([]byte, error) {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	size, from := len(text), 0
	for _, e := range sorted {
		if e.Start < 0 || e.End < e.Start || e.End > len(text) {
			return nil, fmt.Errorf("edit of bytes %d to %d in a document of %d bytes", e.Start, e.End, len(text))
		}
		if e.Start < from {
			return nil, fmt.Errorf("edit of bytes %d to %d overlaps the one before it, which ends at %d",
				e.Start, e.End, from)
		}
		size += len(e.New) - (e.End - e.Start)
		from = e.End
	}
	changed := make([]byte, 0, size)
	from = 0
	for _, e := range sorted {
		changed = append(changed, text[from:e.Start]...)
		changed = append(changed, e.New...)
		from = e.End
	}
	return append(changed, text[from:]...), nil
}

// SetAttr gives the attribute with the name a value: at its place and in its
// quotes when e has it, else behind the last attribute and in the quotes of
// that one. The value may be any text; what XML cannot hold becomes U+FFFD.
func (d *Document) SetAttr(e *Element, name, value string) Edit {
	if a := e.Attr(name); a != nil {
		return Edit{a.Text.Start, a.Text.End, escape(value)}
	}
	at, quote := e.Open.Start+len("<")+len(e.Name), d.quote(e)
	if n := len(e.Attrs); n > 0 {
		at = e.Attrs[n-1].Whole.End
	}
	return Edit{at, at, " " + name + "=" + quote + escape(value) + quote}
}

// quote is the quote of e's last attribute, or of the nearest element above it
// that has one.
func (d *Document) quote(e *Element) string {
	for ; e != nil; e = e.Parent {
		if n := len(e.Attrs); n > 0 {
			return string(e.Attrs[n-1].Quote)
		}
	}
	return `"`
}

// RemoveAttr takes an attribute out together with the blanks before it.
func (d *Document) RemoveAttr(a *Attr) Edit {
	return Edit{d.blanksBefore(a.Whole.Start), a.Whole.End, ""}
}

// Replace puts an element, given as the functions that insert take it, in the
// place of e.
func (d *Document) Replace(e *Element, element string) Edit {
	return Edit{e.Whole.Start, e.Whole.End, d.layout(e).indent(element)}
}

// Remove takes e out together with its line: with the line end and the
// indentation before it, or with the blanks before it on the same line.
func (d *Document) Remove(e *Element) Edit {
	start := d.blanksBefore(e.Whole.Start)
	return Edit{e.Whole.Start - len(lastLine(d.text[start:e.Whole.Start])), e.Whole.End, ""}
}

// blanksBefore is where the blanks that end at offset start.
func (d *Document) blanksBefore(offset int) int {
	return len(strings.TrimRight(d.text[:offset], space))
}

// lastLine is the last line end and what follows it, in a run of blanks; all
// of it when it has no line end.
func lastLine(blanks string) string {
	i := strings.LastIndexByte(blanks, '\n')
	if i < 0 {
		return blanks
	}
	if i > 0 && blanks[i-1] == '\r' {
		i--
	}
	return blanks[i:]
}
