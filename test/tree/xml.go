package tree

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Attr is one attribute; Name has its prefix as written, "xmlns:qemu".
type Attr struct {
	Name, Value string
}

// Node is one XML element. It keeps the order and the prefixes of names and
// attributes and knows its byte offsets.
type Node struct {
	Name  string // with its prefix as written, "qemu:commandline"
	Attrs []Attr
	Nodes []*Node
	Text  string // character data directly inside; whitespace between child elements is left out

	Start, TagEnd, End int // byte offsets: of '<', after the start tag, after the end tag
}

// Parse reads one document. It fails when the document is not well-formed or
// has not exactly one root element.
func Parse(document []byte) (*Node, error) {
	dec := xml.NewDecoder(bytes.NewReader(document))
	top := &Node{}
	stack := []*Node{top}
	for {
		start := int(dec.InputOffset())
		token, err := dec.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("parse XML at byte %d: %w", start, err)
		}

		parent := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			node := &Node{Name: rawName(t.Name), Start: start, TagEnd: int(dec.InputOffset())}
			for _, a := range t.Attr {
				node.Attrs = append(node.Attrs, Attr{rawName(a.Name), a.Value})
			}
			parent.Nodes = append(parent.Nodes, node)
			stack = append(stack, node)

		case xml.EndElement:
			if len(stack) == 1 || parent.Name != rawName(t.Name) {
				return nil, fmt.Errorf("parse XML at byte %d: </%s> closes <%s>", start,
					rawName(t.Name), parent.Name)
			}
			parent.End = int(dec.InputOffset())
			stack = stack[:len(stack)-1]

		case xml.CharData:
			parent.Text += string(t)
		}
	}

	if len(stack) != 1 {
		return nil, fmt.Errorf("parse XML: <%s> is not closed", stack[len(stack)-1].Name)
	}

	if len(top.Nodes) != 1 || strings.TrimSpace(top.Text) != "" {
		return nil, fmt.Errorf("parse XML: %d root elements, want 1 and no text beside it",
			len(top.Nodes))
	}

	top.Nodes[0].dropWhitespace()
	return top.Nodes[0], nil
}

func rawName(n xml.Name) string {
	if n.Space == "" {
		return n.Local
	}
	return n.Space + ":" + n.Local
}

// dropWhitespace removes the indentation between child elements.
func (n *Node) dropWhitespace() {
	if len(n.Nodes) > 0 && strings.TrimSpace(n.Text) == "" {
		n.Text = ""
	}
	for _, kid := range n.Nodes {
		kid.dropWhitespace()
	}
}

// Attr returns the value of an attribute, "" when it is absent.
func (n *Node) Attr(name string) string {
	value, _ := n.Lookup(name)
	return value
}

// Lookup returns the value of an attribute and whether it is present. A nil
// node has none.
func (n *Node) Lookup(name string) (string, bool) {
	if n == nil {
		return "", false
	}

	for _, a := range n.Attrs {
		if a.Name == name {
			return a.Value, true
		}
	}

	return "", false
}

// Set changes an attribute, or appends it.
func (n *Node) Set(name, value string) {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			n.Attrs[i].Value = value
			return
		}
	}

	n.Attrs = append(n.Attrs, Attr{name, value})
}

// Find follows child element names from n and returns the first match of each,
// nil when one is missing.
func (n *Node) Find(path ...string) *Node {
	for _, name := range path {
		if n == nil {
			return nil
		}

		i := slices.IndexFunc(n.Nodes, func(k *Node) bool { return k.Name == name })
		if i < 0 {
			return nil
		}

		n = n.Nodes[i]
	}

	return n
}

// All returns the child elements of one name, in document order.
func (n *Node) All(name string) []*Node {
	if n == nil {
		return nil
	}

	var found []*Node
	for _, kid := range n.Nodes {
		if kid.Name == name {
			found = append(found, kid)
		}
	}

	return found
}

// Add appends a new child element with the given attributes, pairs of name and
// value, and returns it.
func (n *Node) Add(name string, attrs ...string) *Node {
	kid := &Node{Name: name}
	for i := 0; i+1 < len(attrs); i += 2 {
		kid.Attrs = append(kid.Attrs, Attr{attrs[i], attrs[i+1]})
	}

	n.Nodes = append(n.Nodes, kid)
	return kid
}

// Remove removes the child elements that match.
func (n *Node) Remove(match func(*Node) bool) {
	n.Nodes = slices.DeleteFunc(n.Nodes, match)
}

// Bytes prints the tree as xml.MarshalIndent(v, "", "\t") prints: no
// declaration, an empty element as <a></a>, no newline at the end.
func (n *Node) Bytes() []byte {
	var b bytes.Buffer
	n.print(&b, 0)
	return b.Bytes()
}

func (n *Node) print(b *bytes.Buffer, depth int) {
	b.WriteString(strings.Repeat("\t", depth) + "<" + n.Name)
	for _, a := range n.Attrs {
		b.WriteString(" " + a.Name + `="` + escape(a.Value) + `"`)
	}

	b.WriteString(">" + escape(n.Text))
	for _, kid := range n.Nodes {
		b.WriteString("\n")
		kid.print(b, depth+1)
	}

	if len(n.Nodes) > 0 {
		b.WriteString("\n" + strings.Repeat("\t", depth))
	}

	b.WriteString("</" + n.Name + ">")
}

func escape(s string) string {
	var b strings.Builder

	// EscapeText fails only when its writer does, and a Builder never does.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
