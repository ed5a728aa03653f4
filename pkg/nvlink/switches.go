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
// Those of later boards are no PCI devices.
var passthrough = map[uint16]map[int]int{
	0x1af1: {16: 12, 8: 6, 4: 3, 2: 1}, // A100
	0x22a3: {8: 4},                     // H100, H200, H800, H20
}

// SwitchFault says what is wrong with the NVSwitches of a VM with these functions, "" where
// nothing is known to be. A VM with NVSwitches alone runs Fabric Manager for others, and one
// without needs none if Fabric Manager runs elsewhere.
func SwitchFault(functions []*topology.Function) string {
	const bridgeOther = 0x068000
	gpus, switches, model := 0, 0, uint16(0)
	for _, f := range functions {
		switch {
		case f == nil || f.Vendor != nvidia:
		case f.IsGPU():
			gpus++
		case f.Class == bridgeOther:
			switches, model = switches+1, f.Device
		}
	}

	byGPUs := passthrough[model]
	if gpus == 0 || len(byGPUs) == 0 || byGPUs[gpus] == switches {
		return ""
	}

	var rules []string
	for _, count := range slices.Sorted(maps.Keys(byGPUs)) {
		rules = append(rules, fmt.Sprintf("%d GPUs take %d", count, byGPUs[count]))
	}

	return fmt.Sprintf("%s beside %s: of this board %s, and VMs with other numbers none, with "+
		"Fabric Manager elsewhere",
		countedSwitches(switches), words.Counted(gpus, "GPU"), strings.Join(rules, ", "))
}

func countedSwitches(n int) string {
	if n == 1 {
		return "1 NVSwitch"
	}
	return fmt.Sprintf("%d NVSwitches", n)
}
