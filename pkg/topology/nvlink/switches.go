package nvlink

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// passthrough has, per PCI device id of NVSwitches, how many a VM takes in full passthrough, by
// the number of its GPUs (Fabric Manager user guide, "Supported Virtual Machine Configurations").
// Those of later boards are no PCI devices. MGX H20 NVL16 has 16 GPUs and four NVSwitches ("NVLink
// Topology").
var passthrough = map[uint16]map[int]int{
	topology.DeviceNVSwitchA100:   {16: 12, 8: 6, 4: 3, 2: 1},
	topology.DeviceNVSwitchHopper: {16: 4, 8: 4},
}

// SwitchFault says what is wrong with the NVSwitches of a VM with these functions on a host, ""
// where nothing is known to be. A VM with NVSwitches alone runs Fabric Manager for others. A list
// of partitions shows that Fabric Manager runs outside of VMs with GPUs.
func (l List) SwitchFault(functions []*topology.Function, host *topology.Host) string {
	gpus, switches, model := 0, 0, uint16(0)
	for _, f := range functions {
		switch {
		case f == nil || f.Vendor != topology.VendorNVIDIA:
		case f.IsGPU():
			gpus++
		case f.IsNVSwitch():
			switches, model = switches+1, f.Device
		}
	}

	// A VM without NVSwitches is right if Fabric Manager has them elsewhere, which a list of
	// partitions shows. A VM with NVSwitches runs Fabric Manager itself, and needs as many as its
	// GPUs take.
	byGPUs := passthrough[model]
	switch {
	case gpus == 0:
		return ""
	case switches == 0 && len(l.Partitions) == 0:
		return idleFault(functions, host)
	case switches == 0:
		return ""

	// With all GPUs of the list the list is an old one, from before the VM had the NVSwitches.
	case gpus < len(l.Modules()):
		return fmt.Sprintf("%s beside %d of %d GPUs: the Fabric Manager that lists the node's "+
			"NVLink partitions needs the NVSwitches, and a VM with a partition none",
			countedSwitches(switches), gpus, len(l.Modules()))

	case len(byGPUs) == 0 || byGPUs[gpus] == switches:
		return ""
	}

	return fmt.Sprintf("%s beside %s: of this board %s, and VMs with other numbers none, with "+
		"Fabric Manager elsewhere",
		countedSwitches(switches), words.Counted(gpus, "GPU"), rules(byGPUs))
}

// IsWhole reports whether so many GPUs are all of a host with one board or two, as far as the
// number of its NVSwitches tells.
func IsWhole(gpus int, host *topology.Host) bool {
	const board = 8
	switches, model := switchesOf(host)
	if needed := passthrough[model][gpus]; needed > 0 {
		return needed == len(switches)
	}
	return gpus == board || gpus == 2*board
}

// switchesOf returns the NVSwitches of a host, and the device id of one.
func switchesOf(host *topology.Host) (switches []*topology.Function, model uint16) {
	for i := range host.Functions {
		if f := &host.Functions[i]; f.IsNVSwitch() {
			switches, model = append(switches, f), f.Device
		}
	}

	return switches, model
}

// idleFault says that nobody is known to connect the GPUs of a VM without NVSwitches: no driver of
// the host has the host's, so Fabric Manager does not run there (user guide, "vGPU Virtualization
// Model": NVSwitches must be bound to nvidia.ko). It may in a service VM.
func idleFault(functions []*topology.Function, host *topology.Host) string {
	gpus := topology.CountFunc(functions, func(f *topology.Function) bool {
		return IsSwitched(f) && f.PhysFn == nil
	})
	if gpus < 2 {
		return ""
	}

	// With a driver of the node on any NVSwitch, Fabric Manager may run there.
	all, model := switchesOf(host)
	for _, f := range all {
		if f.Driver != "" && !f.IsVFIO() {
			return ""
		}
	}

	byGPUs := passthrough[model]
	if len(byGPUs) == 0 {
		return ""
	}

	instead := ""
	if needed := byGPUs[gpus]; needed > 0 {
		instead = "the VM gets " + countedSwitches(needed) + ", or "
	}

	return fmt.Sprintf("%d GPUs and none of the board's %d NVSwitches, which no driver of the node "+
		"uses either: CUDA does not start unless %sFabric Manager in another VM has activated "+
		"these GPUs' partition",
		gpus, len(all), instead)
}

// rules lists the numbers of NVSwitches by those of GPUs.
func rules(byGPUs map[int]int) string {
	var texts []string
	for _, count := range slices.Sorted(maps.Keys(byGPUs)) {
		texts = append(texts, fmt.Sprintf("%d GPUs take %d", count, byGPUs[count]))
	}

	return strings.Join(texts, ", ")
}

func countedSwitches(n int) string {
	if n == 1 {
		return "1 NVSwitch"
	}
	return fmt.Sprintf("%d NVSwitches", n)
}
