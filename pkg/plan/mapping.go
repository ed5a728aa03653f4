package plan

import (
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/plan/mapping"
)

// Mapping estimates how long a start of the plan's domain maps memory and BARs. Mediated devices
// map neither at the start: their drivers pin what the guest gives them.
func (r Result) Mapping() mapping.Estimate {
	d := r.Plan.Domain()
	passed := keys.Firmware(r.Plan, d, 0)
	vm := mapping.Start{
		Memory: d.MemoryBytes, HugePages: d.HugePages, CPUs: d.VCPUs,
		Spaces:  min(1, len(passed.Functions)),
		Kernel:  host.Kernel(r.vm.planner.Sysfs),
		OldQEMU: libvirt.IsOlderThan(d.Machine, mapping.NewQEMU),
	}

	vm.BARs, _ = passed.BARs()
	if d.HasIOMMU() {
		vm.Spaces = len(passed.Functions)
	}

	return vm.Estimate()
}
