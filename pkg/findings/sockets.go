package findings

import (
	"fmt"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// cellsShareSocket finds guest cells with passthrough devices that are in fewer guest sockets than
// there are cells. Dynamic Resource Allocation publishes the nodes of one socket as equally near
// where distances do not say otherwise (k8s.io/dynamic-resource-allocation deviceattribute,
// numa_linux.go, the list form of numaNode), so a claim gets devices of two host nodes.
func cellsShareSocket(plan *placement.Plan) []reasons.Finding {
	d := plan.Domain()
	cells := map[topology.CellID]bool{}
	for _, device := range plan.Devices {
		if device.Cell != nil && device.Function.IsGPUOrNIC() {
			cells[*device.Cell] = true
		}
	}

	count := len(d.CPUCells())
	if len(cells) < 2 || d.Sockets == 0 || d.Sockets >= count {
		return nil
	}

	return withRemedy(fmt.Sprintf("set spec.domain.cpu.sockets: %d in the VMI, with cores per socket",
		count),
		"%d guest cells are in %s: Kubernetes in the guest, with the list form of numaNode, takes "+
			"devices of all of them for aligned", count, words.Counted(d.Sockets, "socket"))
}
