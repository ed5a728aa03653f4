package mutate

import (
	"bytes"
	"fmt"
)

// Limit bounds the domains that a Mutator works on, for a process that has
// little memory. The zero value bounds nothing beyond what pkg/domain does.
type Limit struct {
	Bytes int // of the document
	// Marks bounds the number of < and = in it, of which each element has at
	// least one and each attribute one: an element takes some fifty times the
	// memory of its shortest form.
	Marks int
}

// Check says why a domain is not worked on, without reading it as XML.
func (l Limit) Check(domain []byte) error {
	if l == (Limit{}) {
		return nil
	}
	if len(domain) > l.Bytes {
		return fmt.Errorf("the domain has %d bytes, more than the %d that are worked on", len(domain), l.Bytes)
	}
	if marks := bytes.Count(domain, []byte("<")) + bytes.Count(domain, []byte("=")); marks > l.Marks {
		return fmt.Errorf("the domain has %d elements and attributes, more than the %d that are worked on", marks, l.Marks)
	}
	return nil
}
