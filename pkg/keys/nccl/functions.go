package nccl

import (
	"fmt"
	"strconv"

	"hook-sidecar/pkg/topology"
)

// Function is a GPU or NIC of a guest, with what is known of its place on the host.
type Function struct {
	Address  topology.Address   // in the guest
	Node     int                // NUMA cell of the guest; -1 for none
	Device   *topology.Function // in the guest: class and ids
	Link     *topology.Link     // of the function itself; nil where it is not known
	Switches []*topology.Node   // above it, the outermost first
}

// Of makes the file of functions, for a guest whose domain is not known. A switch has the fastest
// link of the functions under it, and an address that no device of the guest has.
func Of(functions []Function) File {
	b := functionBuilder{cpus: map[int]*element{}, switches: map[*topology.Node]*element{}}
	links := fastestUnder(functions)
	library := RCCL
	for _, f := range functions {
		if f.Device.IsGPU() && f.Device.Vendor != topology.VendorAMDGPU {
			library = NCCL
		}

		parent := b.cpu(f.Node)
		for _, s := range f.Switches {
			parent = b.pciSwitch(s, parent, links[s])
		}

		e := function(f.Address, f.Device.Class, f.Link)
		e.isGPU = f.Device.IsGPU()
		e.setID("vendor", f.Device.Vendor)
		e.setID("device", f.Device.Device)
		parent.children = append(parent.children, e)
	}

	b.file.Library = library
	b.file.sort()
	return b.file
}

// functionBuilder collects the elements of a file.
type functionBuilder struct {
	file     File
	cpus     map[int]*element
	switches map[*topology.Node]*element
}

// cpu returns the CPU of a NUMA node.
func (b *functionBuilder) cpu(node int) *element {
	if b.cpus[node] == nil {
		c := &element{name: "cpu", node: node}
		c.set("numaid", strconv.Itoa(node))
		b.cpus[node], b.file.cpus = c, append(b.file.cpus, c)
	}

	return b.cpus[node]
}

// pciSwitch returns the element of a switch, which it adds under a parent once.
func (b *functionBuilder) pciSwitch(
	n *topology.Node, parent *element, link *topology.Link,
) *element {
	if b.switches[n] == nil {
		s := function(inventedAddress(len(b.switches)), topology.ClassBridge, link)
		b.switches[n], parent.children = s, append(parent.children, s)
	}

	return b.switches[n]
}

// function returns the element of a function with its class and link.
func function(address topology.Address, class uint32, link *topology.Link) *element {
	e := &element{name: "pci", address: address}
	e.set("busid", address.String())
	e.set("class", fmt.Sprintf("0x%06x", class))
	e.setLink(link)
	return e
}

// fastestUnder returns the fastest link of the functions under each switch.
func fastestUnder(functions []Function) map[*topology.Node]*topology.Link {
	links := map[*topology.Node]*topology.Link{}
	for _, f := range functions {
		for _, s := range f.Switches {
			if known := links[s]; f.Link != nil && (known == nil || known.Speed < f.Link.Speed) {
				links[s] = f.Link
			}
		}
	}

	return links
}
