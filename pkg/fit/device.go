package fit

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"hook-sidecar/pkg/topology"
)

// device is a device of a ResourceSlice. What its driver does not publish is empty.
type device struct {
	resourceapi.Device
	driver      string
	id          structured.DeviceID
	addresses   []string // PCI address
	roots, numa []string // PCIe roots and NUMA nodes: several of a CPU
}

func newDevice(slice *resourceapi.ResourceSlice, of resourceapi.Device) *device {
	driver := slice.Spec.Driver
	d := &device{Device: of, driver: driver, id: structured.MakeDeviceID(driver, slice.Spec.Pool.Name, of.Name)}
	for _, name := range d.names(addressIDs()) {
		d.addresses = d.values(name)
	}
	for _, name := range d.names(rootIDs()) {
		d.roots = d.values(name)
	}
	for _, name := range d.names(numaIDs()) {
		d.numa = d.values(name)
	}
	return d
}

// The names of attributes without their domain, which is the driver's own in places:
// resource.kubernetes.io/numaNode, dra.net/numaNode and dra.cpu/numaNodeID are one thing.
func addressIDs() []string { return []string{"pciAddr", "pciAddress", "pciBusID"} }
func rootIDs() []string    { return []string{"pciRoot", "pcieRoot"} }
func numaIDs() []string    { return []string{"numaNode", "numaNodeID"} }

// names returns the qualified names of the device's attributes with one of the ids, sorted.
// The domain of an unqualified name is the driver's.
func (d *device) names(ids []string) []string {
	var names []string
	for name := range d.Attributes {
		domain, id, isQualified := strings.Cut(string(name), "/")
		if !isQualified {
			domain, id = d.driver, string(name)
		}
		if slices.Contains(ids, id) {
			names = append(names, domain+"/"+id)
		}
	}
	slices.Sort(names)
	return names
}

// values returns the values of the attribute with a qualified name. Two devices match where
// they share one (KEP-5491).
func (d *device) values(name string) []string {
	a, isQualified := d.Attributes[resourceapi.QualifiedName(name)]
	if domain, id, _ := strings.Cut(name, "/"); !isQualified && domain == d.driver {
		a = d.Attributes[resourceapi.QualifiedName(id)]
	}
	switch {
	case a.StringValue != nil:
		return []string{*a.StringValue}
	case a.VersionValue != nil:
		return []string{*a.VersionValue}
	case a.IntValue != nil:
		return []string{fmt.Sprint(*a.IntValue)}
	case a.BoolValue != nil:
		return []string{fmt.Sprint(*a.BoolValue)}
	}
	all := slices.Concat(a.StringValues, a.VersionValues)
	for _, n := range a.IntValues {
		all = append(all, fmt.Sprint(n))
	}
	for _, b := range a.BoolValues {
		all = append(all, fmt.Sprint(b))
	}
	return all
}

func share(a, b []string) bool {
	return slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
}

// distance returns the path type between two devices as far as slices show it. It is PHB
// where they share a PCIe root; under a switch they are nearer, PIX or PXB.
func distance(a, b *device) string {
	haveNUMA := len(a.numa) > 0 && len(b.numa) > 0
	switch {
	case share(a.roots, b.roots):
		return topology.PHB.String()
	case haveNUMA && !share(a.numa, b.numa):
		return topology.SYS.String()
	case haveNUMA && len(a.roots) > 0 && len(b.roots) > 0:
		return topology.NODE.String()
	}
	return unknown
}

// unknown is what no driver publishes.
const unknown = "unknown"
