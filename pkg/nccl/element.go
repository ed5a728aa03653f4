package nccl

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// element is an element of the file: a CPU, which is a NUMA node of the guest,
// or under it a PCI switch, a GPU or a NIC.
type element struct {
	name       string
	node       int              // of a CPU; -1 for none
	address    topology.Address // of all but a CPU
	attributes string
	children   []*element
}

// set adds an attribute, unless its value is not known.
func (e *element) set(name, value string) {
	if value != "" {
		e.attributes += fmt.Sprintf(` %s="%s"`, name, value)
	}
}

// setID adds an id in the kernel's form, unless it is 0, which is not known.
func (e *element) setID(name string, id uint16) {
	if id != 0 {
		e.set(name, fmt.Sprintf("0x%04x", id))
	}
}

// sort orders children by the guest's addresses, as NCCL orders what it finds
// itself (xml.cc, ncclTopoGetXmlFromSys). A switch counts as the first device
// under it.
func (e *element) sort() {
	for _, c := range e.children {
		c.sort()
	}
	slices.SortFunc(e.children, func(x, y *element) int { return x.first().Compare(y.first()) })
}

// first is the lowest address of a device in a sorted tree.
func (e *element) first() topology.Address {
	for len(e.children) > 0 {
		e = e.children[0]
	}
	return e.address
}

func (e *element) write(text *strings.Builder, indent string) {
	text.WriteString(indent + "<" + e.name + e.attributes)
	if len(e.children) == 0 {
		text.WriteString("/>\n")
		return
	}
	text.WriteString(">\n")
	for _, c := range e.children {
		c.write(text, indent+"  ")
	}
	text.WriteString(indent + "</" + e.name + ">\n")
}
