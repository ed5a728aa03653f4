package findings

import (
	"hook-sidecar/pkg/nvlink"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// nvSwitches finds other NVSwitches than the GPUs take.
func nvSwitches(plan *placement.Plan) []Finding {
	functions := topology.Map(plan.Devices,
		func(d placement.Decision) *topology.Function { return d.Function })
	if fault := nvlink.SwitchFault(functions); fault != "" {
		return one("%s", fault)
	}
	return nil
}

// noPartition finds GPUs that are no NVLink partition. Without the host's partitions it is known
// only of a number of GPUs that no board has.
func noPartition(plan *placement.Plan) []Finding {
	var functions []*topology.Function
	var gpus []topology.Address
	for _, d := range plan.Devices {
		if d.Function != nil && d.Function.IsGPU() {
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
