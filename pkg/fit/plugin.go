package fit

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/topology"
)

// Bounds are the nearest and the furthest devices that kubelet may give a VM where device
// plugins have them. It takes any that are free, so all of the node count.
type Bounds struct {
	Best    map[string]int `json:"best"`    // pairs of the nearest devices, by path type
	Worst   map[string]int `json:"worst"`   // of the furthest
	OneNode map[string]int `json:"oneNode"` // of the furthest with topology manager policy single-numa-node; null where it refuses the VM
}

// mostDevices limits the search, which tries each set of devices.
const mostDevices = 20

// bounds returns what kubelet may give; nil where the node was not read, or the VM needs no
// device of a plugin, or too many.
func (n *node) bounds(s Shape) *Bounds {
	host := n.hosts[n.Name]
	if host == nil {
		return nil
	}
	var ids []topology.DeviceID
	kinds := map[corev1.ResourceName]uint32{} // the devices of a resource, a bit per device
	for _, name := range slices.Sorted(maps.Keys(s.Needs)) {
		for _, d := range host.Devices {
			if n.permits(name, d) {
				kinds[name] |= 1 << len(ids)
				ids = append(ids, topology.PCIDevice(d.Address))
			}
		}
	}
	if len(ids) == 0 || len(ids) > mostDevices {
		return nil
	}
	tree := host.Tree(ids)
	var types [mostDevices][mostDevices]topology.PathType
	for i, a := range ids {
		for j, b := range ids[:i] {
			types[i][j] = tree.PathType(a, b)
		}
	}
	var b Bounds
	var best, worst, oneNode int
	for set := range uint32(1) << len(ids) {
		isWanted := true
		for name, devices := range kinds {
			isWanted = isWanted && int64(bits.OnesCount32(set&devices)) == s.Needs.Name(name, "").Value()
		}
		if !isWanted {
			continue
		}
		total, furthest, pairs := 0, topology.PathType(0), map[string]int{}
		for i := range ids {
			for j := range i {
				if (set>>i)&(set>>j)&1 == 1 {
					total += int(types[i][j])
					furthest = max(furthest, types[i][j])
					pairs[types[i][j].String()]++
				}
			}
		}
		if b.Best == nil || total < best {
			best, b.Best = total, pairs
		}
		if b.Worst == nil || total > worst {
			worst, b.Worst = total, pairs
		}
		if furthest < topology.SYS && (b.OneNode == nil || total > oneNode) {
			oneNode, b.OneNode = total, pairs
		}
	}
	if b.Best == nil {
		return nil
	}
	return &b
}

// permits reports whether KubeVirt gives devices like d out under the resource.
func (n *node) permits(name corev1.ResourceName, d topology.Device) bool {
	id := fmt.Sprintf("%04x:%04x", d.Vendor, d.Device)
	return slices.ContainsFunc(n.permitted, func(p v1.PciHostDevice) bool {
		return p.ResourceName == string(name) && strings.EqualFold(p.PCIVendorSelector, id)
	})
}
