package xmledit

import "strings"

// bind adds the namespaces that e declares to the scope and names their prefixes.
func (p *parser) bind(e *Element) []string {
	var prefixes []string
	for _, a := range e.Attrs {
		prefix, found := strings.CutPrefix(a.Name, "xmlns:")
		if !found && a.Name != "xmlns" {
			continue
		}
		if !found {
			prefix = ""
		}
		p.scope[prefix] = append(p.scope[prefix], a.Value)
		prefixes = append(prefixes, prefix)
	}
	return prefixes
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
