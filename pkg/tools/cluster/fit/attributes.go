package fit

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/topology"
)

// place is where a device is. A driver may publish several PCIe roots or NUMA nodes of a device,
// in a list (KEP-5491): a socket's, or those that are equally near.
type place struct {
	address topology.Address
	roots   []topology.PCIeRoot
	nodes   []topology.NodeID
}

// placeOf reads where a published device is.
func placeOf(d *resourceapi.Device) (at place) {
	for name, a := range d.Attributes {
		texts := a.StringValues
		if a.StringValue != nil {
			texts = []string{*a.StringValue}
		}

		numbers := a.IntValues
		if a.IntValue != nil {
			numbers = []int64{*a.IntValue}
		}

		switch meaning(string(name)) {
		case isAddress:
			for _, text := range texts {
				if address, err := topology.ParseAddress(text); err == nil {
					at.address = address
				}
			}

		case isRoot:
			at.roots = topology.Map(texts, func(text string) topology.PCIeRoot {
				return topology.PCIeRoot(text)
			})

		case isNode:
			for _, number := range numbers {
				// a driver may publish one node under the names of several
				if number >= 0 && !slices.Contains(at.nodes, topology.NodeID(number)) {
					at.nodes = append(at.nodes, topology.NodeID(number))
				}
			}
		}
	}

	slices.Sort(at.nodes)
	return at
}

// property is the kind of place that an attribute names: a PCIe root, a NUMA node, an address.
type property int

const (
	isOther property = iota
	isAddress
	isRoot
	isNode
)

// meaning returns the property that an attribute has, whatever its domain, which some drivers
// choose: resource.kubernetes.io/numaNode, dra.net/numaNode and dra.cpu/numaNodeID are one.
func meaning(name string) property {
	switch name[strings.LastIndex(name, "/")+1:] {
	case "pciAddr", "pciAddress", "pciBusID":
		return isAddress
	case "pciRoot", "pcieRoot":
		return isRoot
	case "numaNode", "numaNodeID":
		return isNode
	}

	return isOther
}

// qualify returns the full name of a driver's attribute.
func qualify(name, driver string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return driver + "/" + name
}
