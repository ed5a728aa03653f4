package xmledit

import "strings"

// bind adds the namespaces that e declares to the scope and names their
// prefixes. It is an error to declare what parsers read differently or refuse:
// no prefix behind the colon, a prefix for no namespace, and the prefixes xml
// and xmlns (Namespaces in XML 1.0, sections 3 and 5).
func (p *parser) bind(e *Element) ([]string, error) {
	var prefixes []string
	for _, a := range e.Attrs {
		prefix, found := strings.CutPrefix(a.Name, "xmlns:")
		switch {
		case !found && a.Name != "xmlns":
			continue
		case !found:
			prefix = ""
		case prefix == "" || a.Value == "" || prefix == "xml" || prefix == "xmlns":
			return nil, p.fail(a.Whole.Start, "%s=%q declares no namespace", Abridge(a.Name), Abridge(a.Value))
		}
		p.scope[prefix] = append(p.scope[prefix], a.Value)
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// unbind takes out of the scope what bind has put there.
func (p *parser) unbind(prefixes []string) {
	for _, prefix := range prefixes {
		p.scope[prefix] = p.scope[prefix][:len(p.scope[prefix])-1]
	}
}

// name splits e's name and finds its namespace.
func (p *parser) name(e *Element) {
	var prefix string
	prefix, e.Local = split(e.Name)
	e.Space = prefix
	if bound := p.scope[prefix]; len(bound) > 0 {
		e.Space = bound[len(bound)-1]
	}
}
