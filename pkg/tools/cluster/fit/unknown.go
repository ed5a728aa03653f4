package fit

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/pkg/words"
)

// gpusOfUnknownPartitions returns how many GPUs a VM gets that have to be an NVLink partition,
// though nothing lists those of the node: some of the GPUs of a board with NVSwitches, more than
// one. It returns 0 where there is nothing to say. The VM gets these devices of claims, or
// s.Devices. With NVSwitches of its own it runs Fabric Manager itself.
func (n *node) gpusOfUnknownPartitions(s Shape, first map[deviceID]string) int {
	if len(n.partitions) > 0 || n.problem != "" {
		return 0
	}

	var all []*topology.Function
	seen := sets.New[topology.DeviceID]() // a GPU may be published as several devices
	taken, resources := sets.New[topology.DeviceID](), sets.New[string]()
	for _, d := range n.devices {
		f := n.modelOf(d)
		switch {
		case f != nil && f.IsNVSwitch() && s.Devices[d.Driver] > 0:
			return 0
		case !nvlink.IsSwitched(f):
			continue
		}

		if !seen.Has(d.pci) {
			seen.Insert(d.pci)
			all = append(all, f)
		}
		if _, isGiven := first[d.id]; isGiven {
			taken.Insert(d.pci)
		}
		if d.published == nil {
			resources.Insert(d.Driver)
		}
	}

	count := taken.Len()
	for resource := range resources {
		count += s.Devices[resource]
	}

	if count < 2 || count >= len(all) || !nvlink.HaveSwitches(all) {
		return 0
	}
	return count
}

// modelOf returns a function with the vendor and device id of a device: that of the host where it
// was read, else what NVIDIA's driver publishes of a GPU for VMs; nil where neither has them.
func (n *node) modelOf(d OfferedDevice) *topology.Function {
	if f := n.host.Function(d.pci); f != nil && f.Vendor != 0 {
		return f
	}
	if d.published == nil || d.Address == "" {
		return nil
	}

	id := func(attribute string) uint16 {
		for _, value := range d.values(d.Driver + "/" + attribute) {
			if id, err := strconv.ParseUint(value, 0, 16); err == nil {
				return uint16(id)
			}
		}
		return 0
	}

	return &topology.Function{
		Address: d.place.address, Vendor: id("vendorID"), Device: id("deviceID"),
	}
}

// unknownNotes says of which nodes the NVLink partitions are missing.
func unknownNotes(nodes []Node) (notes []string) {
	var names []string
	gpus := 0
	for _, n := range nodes {
		if n.gpusOfUnknown > 0 {
			names, gpus = append(names, n.Name), max(gpus, n.gpusOfUnknown)
		}
	}

	if len(names) == 0 {
		return nil
	}

	if !nvlink.IsSize(gpus) {
		notes = append(notes, fmt.Sprintf("no board with NVSwitches has NVLink partitions of %d "+
			"GPUs: CUDA does not start in such a VM (802)", gpus))
	}

	file := "NODE"
	if len(names) == 1 {
		file = names[0]
	}

	return append(notes, fmt.Sprintf("NVLink partitions of node %s are not known, so any of its "+
		"GPUs count; with others than a partition CUDA does not start (802): pass what fmpm -l "+
		"prints there as --partitions %s=FILE", words.FirstOf(names, 10, ", "), file))
}
