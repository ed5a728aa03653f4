package fit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"hook-sidecar/pkg/topology"
)

// Device is a device of a ResourceSlice. What its driver does not publish is empty.
type Device struct {
	Name    string   `json:"name"`    // in its ResourceSlice
	Driver  string   `json:"driver"`  // that publishes it
	Address string   `json:"address"` // PCI address
	Roots   []string `json:"roots"`   // PCIe roots: several of a CPU
	NUMA    []string `json:"numa"`    // NUMA nodes
	State   string   `json:"state"`   // free, used, or taken: by the next VM
	By      string   `json:"by"`      // the claim that uses it, or the request that would take it

	published resourceapi.Device
	id        structured.DeviceID
	values    map[string][]string // by the qualified name of their attribute
}

func newDevice(slice *resourceapi.ResourceSlice, published resourceapi.Device) Device {
	driver := slice.Spec.Driver
	d := Device{
		Name: published.Name, Driver: driver, Roots: []string{}, NUMA: []string{}, State: "free",
		published: published, id: structured.MakeDeviceID(driver, slice.Spec.Pool.Name, published.Name), values: map[string][]string{},
	}
	for name, a := range published.Attributes {
		qualified := string(name)
		if !strings.Contains(qualified, "/") {
			qualified = driver + "/" + qualified
		}
		d.values[qualified] = values(a)
	}
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		switch meaning(name) {
		case "address":
			d.Address = strings.Join(d.values[name], ",")
		case "root":
			d.Roots = d.values[name]
		case "NUMA node":
			d.NUMA = d.values[name]
		}
	}
	return d
}

// meaning returns what an attribute says, whatever its domain, which is the driver's own in
// places: resource.kubernetes.io/numaNode, dra.net/numaNode and dra.cpu/numaNodeID are one thing.
func meaning(name string) string {
	switch _, id, _ := strings.Cut(name, "/"); id {
	case "pciAddr", "pciAddress", "pciBusID":
		return "address"
	case "pciRoot", "pcieRoot":
		return "root"
	case "numaNode", "numaNodeID":
		return "NUMA node"
	}
	return ""
}

// values returns the values of an attribute. Two devices match where they share one (KEP-5491).
func values(a resourceapi.DeviceAttribute) []string {
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
func distance(a, b Device) string {
	haveNUMA := len(a.NUMA) > 0 && len(b.NUMA) > 0
	switch {
	case share(a.Roots, b.Roots):
		return topology.PHB.String()
	case haveNUMA && !share(a.NUMA, b.NUMA):
		return topology.SYS.String()
	case haveNUMA && len(a.Roots) > 0 && len(b.Roots) > 0:
		return topology.NODE.String()
	}
	return unknown
}

// unknown is what no driver publishes.
const unknown = "unknown"
