package matrix

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/tools/sample"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/tree"
)

// GuestNUMA are the host nodes that the memory of each guest cell is on.
type GuestNUMA [][]int

// CellPerNode returns a guest with a cell for each node of a host.
func CellPerNode(nodes []topology.NUMANode) GuestNUMA {
	return topology.Map(nodes, func(n topology.NUMANode) []int { return []int{int(n.ID)} })
}

// CellOf returns the guest cell that alone has memory on a host node, or tree.Unknown.
func (g GuestNUMA) CellOf(node int) int {
	for cell, nodes := range g {
		if slices.Contains(nodes, node) {
			return cell
		}
	}
	return tree.Unknown
}

// Domain returns the domain of a VM with these devices, by address or UUID, in their order.
// Without cells the guest has no NUMA.
func Domain(numa GuestNUMA, devices []string) []byte {
	vm := sample.Spec{Cells: numa}
	for i, id := range devices {
		device := topology.MediatedDevice(topology.UUID(id))
		if address, err := topology.ParseAddress(id); err == nil {
			device = topology.PCIDevice(address)
		}

		vm.Devices = append(vm.Devices, sample.AliasedDevice{
			ID: device, Alias: fmt.Sprintf("hostdevice-%d", i),
		})
	}

	domain, err := vm.Domain()
	if err != nil {
		panic(err) // of the template
	}

	return domain
}
