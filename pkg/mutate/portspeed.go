package mutate

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// rootPortSpeed is what QEMU's root ports advertise, in GT/s
// (hw/pci-bridge/gen_pcie_root_port.c, x-speed).
const rootPortSpeed = 16

// withPortSpeed is the plan with a warning where NCCL and RCCL would take the
// speed of emulated root ports for that of a faster link. They take speed and
// width each as the minimum of a device and the port above it (src/graph/xml.cc,
// ncclTopoGetXmlFromSys), and the slowest link on the path between two devices.
// So it takes two fast devices, at least one of them a GPU. Link speeds are
// only read for devices that may be such.
func withPortSpeed(plan *placement.Plan, sysfs fs.FS) *placement.Plan {
	if plan.Policy.NCCLTopology != policy.NCCLTopologyNone {
		return plan
	}
	devices := atRootPorts(plan)
	if !topology.HasPair(devices) {
		return plan
	}
	speeds, problems := env.ReadMaxLinkSpeeds(sysfs, linkEnds(devices))
	fast := slices.DeleteFunc(devices, func(d *topology.Device) bool { return speedOf(d, speeds) <= rootPortSpeed })
	warnings := warningsOf(problems)
	if topology.HasPair(fast) {
		highest := 0.0
		for _, d := range fast {
			highest = max(highest, speedOf(d, speeds))
		}
		warnings = append(warnings, reasons.NewWarning(reasons.CodePortSpeed, nil, fmt.Sprintf(
			"emulated root ports advertise %d GT/s, and NCCL believes them: %d GPUs and NICs have a faster link on the host, the fastest %s GT/s",
			rootPortSpeed, len(fast), strconv.FormatFloat(highest, 'f', -1, 64))))
	}
	return plan.With(plan.Changes, nil, warnings)
}

// atRootPorts are the host's functions of the GPUs and NICs that the topology file
// would name and that are directly under a root port of the guest. A mediated device
// has a link of its own.
func atRootPorts(plan *placement.Plan) []*topology.Device {
	var devices []*topology.Device
	for _, d := range plan.Devices {
		n := plan.GuestTree.Node(d.ID)
		isUnderRootPort := n != nil && n.Parent != nil && n.Parent.Kind == topology.RootPort
		if isUnderRootPort && d.Function.IsPaired() && d.Predicted != nil && d.ID.Kind() == topology.KindPCI {
			devices = append(devices, d.Function)
		}
	}
	return devices
}

// linkEnds are the functions at both ends of the devices' links.
func linkEnds(devices []*topology.Device) []topology.Address {
	var ends []topology.Address
	for _, d := range devices {
		ends = append(ends, lowerEnd(d))
		if n := len(d.Bridges); n > 0 {
			ends = append(ends, d.Bridges[n-1])
		}
	}
	return ends
}

// lowerEnd is the function with the link of a device: a virtual function has that
// of its physical function.
func lowerEnd(d *topology.Device) topology.Address {
	if d.PhysFn != nil {
		return *d.PhysFn
	}
	return d.Address
}

// speedOf is the speed that a device and the port above it support; 0 where that
// of the device is not known.
func speedOf(d *topology.Device, speeds map[topology.Address]float64) float64 {
	speed := speeds[lowerEnd(d)]
	if n := len(d.Bridges); n > 0 {
		if port, known := speeds[d.Bridges[n-1]]; known {
			return min(speed, port)
		}
	}
	return speed
}
