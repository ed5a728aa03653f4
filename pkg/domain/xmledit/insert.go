package xmledit

import "strings"

// layout is how a document writes the children of an element.
type layout struct {
	lead string // newline and indentation before each child; "" when all are on one line
	unit string // what one level indents by
}

// layout returns the layout of e itself.
func (d *Document) layout(e *Element) layout {
	lead := d.lead(e)
	if lead == "" {
		return layout{}
	}

	own, above := lead[strings.LastIndexByte(lead, '\n')+1:], ""
	if e.Parent != nil {
		above = indentation(d.lead(e.Parent))
	}

	if unit, found := strings.CutPrefix(own, above); found && unit != "" {
		return layout{lead: lead, unit: unit}
	}

	return layout{lead: lead, unit: d.unit()}
}

// lead returns the newline and the indentation before e, "" when e does not start a line.
func (d *Document) lead(e *Element) string {
	line := d.lastLine(e.Whole().Start)
	if !strings.Contains(line, "\n") {
		return ""
	}
	return line
}

func indentation(lead string) string { return strings.TrimLeft(lead, "\r\n") }

// unit returns the indentation of the root's first child, or libvirt's two spaces.
func (d *Document) unit() string {
	if len(d.root.Children) > 0 {
		if unit := indentation(d.lead(d.root.Children[0])); unit != "" {
			return unit
		}
	}
	return "  "
}

// indent lays out elements that are indented with tabs, one after the other.
func (l layout) indent(elements ...string) string {
	var out strings.Builder
	for _, element := range elements {
		for line := range strings.SplitSeq(element, "\n") {
			content := strings.TrimLeft(line, "\t")
			out.WriteString(l.lead)
			for range len(line) - len(content) {
				out.WriteString(l.unit)
			}

			out.WriteString(content)
		}
	}

	return out.String()
}

// InsertAfter puts elements after e, each indented as e is. They are written with one element
// per line, indented with tabs; a newline in a value or a text is written as a reference.
func (d *Document) InsertAfter(e *Element, elements ...string) Edit {
	return Edit{e.Whole().End, e.Whole().End, d.layout(e).indent(elements...)}
}

// InsertBefore puts elements before e; see InsertAfter. e may be removed at the same time.
func (d *Document) InsertBefore(e *Element, elements ...string) Edit {
	at := d.Remove(e).Start
	return Edit{at, at, d.layout(e).indent(elements...)}
}

// InsertLast puts elements after all that parent holds; see InsertAfter. A parent without
// children takes one call only, because it may have to get a close tag.
func (d *Document) InsertLast(parent *Element, elements ...string) Edit {
	if n := len(parent.Children); n > 0 {
		return d.InsertAfter(parent.Children[n-1], elements...)
	}

	own := d.layout(parent)
	inner := own
	switch newline := d.newline(); {
	case own.lead != "":
		inner.lead += own.unit
	case parent.Parent == nil && newline != "": // the root does not start a line of its own
		own.lead = newline
		inner = layout{lead: newline + d.unit(), unit: d.unit()}
	}

	added := inner.indent(elements...)
	if parent.ClosesItself() {
		slash := parent.Open().End - len("/>")
		return Edit{
			d.trimmed(slash), parent.Open().End, ">" + added + own.lead + "</" + parent.Name + ">",
		}
	}

	// The parent may hold a comment or text; whitespace before the close tag stays.
	at := max(parent.Open().End, d.trimmed(parent.Close().Start))
	if at == parent.Close().Start {
		added += own.lead
	}

	return Edit{at, at, added}
}

// Fill puts elements into parent; see InsertLast. If parent is empty a comment records how it was
// written, and RemoveChildren restores that.
func (d *Document) Fill(parent *Element, elements ...string) Edit {
	was := d.text[parent.start:parent.end]
	isEmpty := len(parent.Children) == 0 &&
		(parent.ClosesItself() || d.isBlank(parent.Open().End, parent.Close().Start))
	if isEmpty && !strings.Contains(was, "--") { // a comment cannot hold it
		elements = append([]string{wasPrefix + written.Replace(was) + wasSuffix}, elements...)
	}

	return d.InsertLast(parent, elements...)
}

// IsFilled reports whether an element was empty before Fill.
func (d *Document) IsFilled(e *Element) bool { return d.was(e) != "" }

// The comment of Fill around what an element was.
const (
	wasPrefix = "<!-- hook-sidecar: was "
	wasSuffix = " -->"
)

// written has the ends of lines of what an element was, which would be indented with the comment, as
// references that no document has: Parse knows no such entity.
var (
	written  = strings.NewReplacer("\n", "&newline;")
	restored = strings.NewReplacer("&newline;", "\n")
)

// was returns what an element was before Fill: it begins with such a comment, and has nothing else
// but whitespace and children. Otherwise it is "".
func (d *Document) was(parent *Element) string {
	end := parent.Close().Start
	if len(parent.Children) > 0 {
		end = parent.Children[0].Whole().Start
	}

	comment := strings.Trim(d.text[parent.Open().End:end], space)
	text, isOne := strings.CutPrefix(comment, wasPrefix)
	text, ends := strings.CutSuffix(text, wasSuffix)
	if !isOne || !ends {
		return ""
	}

	return restored.Replace(text)
}

// newline returns the document's first newline, "" when it has a single line.
func (d *Document) newline() string {
	before, _, found := strings.Cut(d.text, "\n")
	switch {
	case !found:
		return ""
	case strings.HasSuffix(before, "\r"):
		return "\r\n"
	}

	return "\n"
}
