package paste

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// element is the start of an XML element.
type element xml.StartElement

func (e element) attribute(name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// openIn finds where a document with an outermost element begins in a text, with its number of
// lines before; -1 if it has none.
func openIn(t text, tag lazyregexp.Regexp) (start, linesBefore int) {
	at := tag.FindStringIndex(t.all)
	if at == nil {
		return -1, 0
	}
	return at[0], strings.Count(t.all[:at[0]], "\n")
}

// maxNesting limits the XML elements inside each other; lstopo's largest machines have 30.
const maxNesting = 256

// walkXML calls enter for each element inside the outermost one that matches, with what enter
// returned for the element around it. An error names the line. Entities that a document declares
// are not replaced.
func walkXML[T any](t text, tag lazyregexp.Regexp, enter func(element, *T) (T, error)) error {
	start, before := openIn(t, tag)
	decoder := xml.NewDecoder(strings.NewReader(t.all[start:]))
	open := make([]T, 1, maxNesting)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}

		line, _ := decoder.InputPos()
		var syntax *xml.SyntaxError
		switch {
		case errors.As(err, &syntax):
			const shown = 100 // the message has the name of an element
			return fmt.Errorf("line %d: %s%s", before+syntax.Line,
				words.AbridgeTo(syntax.Msg, shown), cutNote(syntax))
		case err != nil:
			return fmt.Errorf("line %d: %w", before+line, err)
		}

		switch e := token.(type) {
		case xml.StartElement:
			if len(open) == maxNesting {
				return fmt.Errorf("line %d: more than %d elements inside each other", before+line,
					maxNesting)
			}

			inside, err := enter(element(e), &open[len(open)-1])
			if err != nil {
				return fmt.Errorf("line %d: %w", before+line, err)
			}

			open = append(open, inside)
		case xml.EndElement:
			if open = open[:len(open)-1]; len(open) == 1 {
				return nil
			}
		}
	}
}

// cutNote returns a note that the end of the file is missing, "" for other syntax errors.
func cutNote(err *xml.SyntaxError) string {
	if strings.Contains(err.Msg, "unexpected EOF") {
		return ": the end of the file is missing"
	}
	return ""
}

// onNode reads the number of a NUMA node.
func onNode(number string) (topology.Affinity, error) {
	var node topology.NodeID
	ids, err := topology.ParseIDs(number)
	if err != nil || strings.ContainsAny(number, ",-^ ") || ids.IsEmpty() {
		return topology.Affinity{}, fmt.Errorf("invalid NUMA node %q", words.Misread(number))
	}

	for id := range ids.All() {
		node = topology.NodeID(id)
	}

	return topology.OnNode(node), nil
}
