package xmledit

import (
	"strings"

	"hook-sidecar/pkg/topology"
)

// bind adds the namespaces that e declares to the scope and finds e's own. It
// is an error to declare what parsers read differently or refuse: no prefix
// after the colon, a prefix for no namespace, and the prefixes xml and xmlns
// (Namespaces in XML 1.0, sections 3 and 5).
func (p *parser) bind(e *Element) error {
	for _, a := range e.Attrs {
		prefix, ok := declares(a)
		if !ok {
			continue
		}
		if a.Name != "xmlns" && (prefix == "" || a.Value == "" || prefix == "xml" || prefix == "xmlns") {
			return p.fail(a.Whole().Start, "invalid namespace declaration %s=%q", topology.Abridge(a.Name), topology.Abridge(a.Value))
		}
		p.scope[prefix] = append(p.scope[prefix], a.Value)
	}
	// A colon with nothing before or after it is a part of the name.
	e.Local = e.Name
	if before, after, found := strings.Cut(e.Name, ":"); found && before != "" && after != "" {
		e.Space, e.Local = before, after
	}
	if bound := p.scope[e.Space]; len(bound) > 0 {
		e.Space = bound[len(bound)-1]
	}
	return nil
}

// unbind removes what bind has added to the scope.
func (p *parser) unbind(e *Element) {
	for _, a := range e.Attrs {
		if prefix, ok := declares(a); ok {
			p.scope[prefix] = p.scope[prefix][:len(p.scope[prefix])-1]
		}
	}
}

// declares is the prefix that an attribute declares a namespace for, "" for the
// default namespace.
func declares(a Attr) (prefix string, ok bool) {
	if a.Name == "xmlns" {
		return "", true
	}
	return strings.CutPrefix(a.Name, "xmlns:")
}
