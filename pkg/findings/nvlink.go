package findings

import (
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// nvSwitches finds NVSwitches that are too few or too many for the GPUs, or that others
// need.
func nvSwitches(plan *placement.Plan) []reasons.Finding {
	var functions []*topology.Function
	for _, d := range plan.Devices {
		if d.ID.Kind() == topology.KindPCI {
			functions = append(functions, d.Function)
		}
	}

	if fault := plan.Partitions.SwitchFault(functions, plan.Host); fault != "" {
		return one("%s", fault)
	}
	return nil
}

// noPartition finds GPUs that are not an NVLink partition. Without the host's partitions only a
// number of GPUs that no partition has is found.
func noPartition(plan *placement.Plan) []reasons.Finding {
	var functions []*topology.Function
	var gpus []topology.Address
	for _, d := range plan.Devices {
		if d.Function != nil && d.Function.IsGPU() && plan.Partitions.Concerns(d.Function) {
			functions = append(functions, d.Function)
			gpus = append(gpus, d.Function.LinkEnd())
		}
	}

	fault := plan.Partitions.Fault(gpus)
	if len(plan.Partitions.Partitions) == 0 {
		fault = nvlink.NumberFault(functions)
	}

	if fault == "" {
		return nil
	}

	return one("%s", fault)
}
