package xmledit

import (
	"encoding/xml"
	"strings"
)

// layout is how a document writes the children of an element.
type layout struct {
	lead string // line end and indentation before each child; "" when all stand on one line
	unit string // what one level indents by
}

// layout is how e itself is laid out.
func (d *Document) layout(e *Element) layout {
	lead := d.lead(e)
	if lead == "" {
		return layout{}
	}
	end := strings.LastIndexByte(lead, '\n') + 1
	own, above := lead[end:], ""
	if e.Parent != nil {
		above = strings.TrimLeft(d.lead(e.Parent), "\r\n")
	}
	if unit, found := strings.CutPrefix(own, above); found && unit != "" {
		return layout{lead: lead, unit: unit}
	}
	return layout{lead: lead, unit: d.unit()}
}

// lead is the line end and the indentation before e, "" when e does not start
// a line.
func (d *Document) lead(e *Element) string {
	line := lastLine(d.text[d.blanksBefore(e.Whole.Start):e.Whole.Start])
	if !strings.Contains(line, "\n") {
		return ""
	}
	return line
}

// unit is what the first child of the root is indented by, or two blanks, as
// libvirt writes.
func (d *Document) unit() string {
	if len(d.root.Children) > 0 {
		if unit := strings.TrimLeft(d.lead(d.root.Children[0]), "\r\n"); unit != "" {
			return unit
		}
	}
	return "  "
}

// indent lays an element out that xml.MarshalIndent(…, "", "\t") has printed.
// It prints no line end inside a value or a text: it writes a reference there.
func (l layout) indent(element string) string {
	lines := strings.Split(element, "\n")
	for i, line := range lines {
		content := strings.TrimLeft(line, "\t")
		if i > 0 && l.lead != "" {
			content = l.lead + strings.Repeat(l.unit, len(line)-len(content)) + content
		}
		lines[i] = content
	}
	return strings.Join(lines, "")
}

// all lays elements out one after the other.
func (l layout) all(elements []string) string {
	var all strings.Builder
	for _, element := range elements {
		all.WriteString(l.lead + l.indent(element))
	}
	return all.String()
}

// InsertAfter puts elements behind e, each indented as e is. An element is
// given as xml.MarshalIndent(…, "", "\t") prints it.
func (d *Document) InsertAfter(e *Element, elements ...string) Edit {
	return Edit{e.Whole.End, e.Whole.End, d.layout(e).all(elements)}
}

// InsertBefore puts elements before e; see InsertAfter. They stand before what
// Remove takes out, so that e may be removed at the same time.
func (d *Document) InsertBefore(e *Element, elements ...string) Edit {
	at := d.Remove(e).Start
	return Edit{at, at, d.layout(e).all(elements)}
}

// InsertLast puts elements behind all that parent holds; see InsertAfter. A
// parent that closes itself is opened up, so that all that is to go into one
// without children must come in one call.
func (d *Document) InsertLast(parent *Element, elements ...string) Edit {
	if n := len(parent.Children); n > 0 {
		return d.InsertAfter(parent.Children[n-1], elements...)
	}
	own := d.layout(parent)
	inner := own
	switch end := d.lineEnd(); {
	case own.lead != "":
		inner.lead += own.unit
	case parent.Parent == nil && end != "": // the root starts no line of its own
		own.lead = end
		inner = layout{lead: end + d.unit(), unit: d.unit()}
	}
	added := inner.all(elements)
	if parent.ClosesItself() {
		slash := parent.Open.End - len("/>")
		return Edit{d.blanksBefore(slash), parent.Open.End, ">" + added + own.lead + "</" + parent.Name + ">"}
	}
	// What stands in the parent may be a comment or text; blanks before the
	// close tag stay where they are.
	at := max(parent.Open.End, d.blanksBefore(parent.Close.Start))
	if at == parent.Close.Start {
		added += own.lead
	}
	return Edit{at, at, added}
}

// lineEnd is the document's first line end, "" when it has but one line.
func (d *Document) lineEnd() string {
	before, _, found := strings.Cut(d.text, "\n")
	switch {
	case !found:
		return ""
	case strings.HasSuffix(before, "\r"):
		return "\r\n"
	}
	return "\n"
}

// escape writes a text so that it may stand in quotes of either kind.
func escape(value string) string {
	var escaped strings.Builder
	// A strings.Builder never fails to write.
	_ = xml.EscapeText(&escaped, []byte(value))
	return escaped.String()
}
