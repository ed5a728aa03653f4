package findings

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// WithoutPlace returns how many devices of a plan have no place.
func WithoutPlace(plan *placement.Plan) int {
	return topology.CountFunc(plan.Devices, isUnplaced)
}

func isUnplaced(d placement.Decision) bool { return d.Outcome == placement.Unplaced }

// LacksCells reports whether the guest has no NUMA cells, and so no expander bus that shows
// it the node of a device.
func LacksCells(plan *placement.Plan) bool {
	d := plan.Domain()
	return len(plan.Devices) > 0 && len(d.Cells) == 0 && libvirt.HasExpanderBuses(d)
}

// CellsRemedy returns how a guest gets NUMA cells: the remedy of no-guest-numa without the layouts
// that need none.
func CellsRemedy() string {
	remedy, _, _ := strings.Cut(reasons.NoGuestNUMA.Remedy(), ";")
	return remedy
}

// FirstRemedy returns what a user has to remedy, with the reason, before the hook can do better
// for a running VM: its domain as it is, and as the hook plans it; "" for nothing.
func FirstRemedy(current, planned *placement.Plan) string {
	isGain := planned.GPUDirect().Guest > current.GPUDirect().Guest
	if LacksCells(current) && !isGain {
		return fmt.Sprintf("%s (%s)", CellsRemedy(), reasons.NoGuestNUMA)
	}

	if i := slices.IndexFunc(planned.Devices, isUnplaced); i >= 0 {
		reason := planned.Devices[i].Reason
		return fmt.Sprintf("%s (%s)", reason.Remedy(), reason)
	}

	return ""
}
