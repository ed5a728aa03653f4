package mutate

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// portSpeedOption is the id of the option that sets the speed of root ports.
const portSpeedOption = domain.OptionPrefix + string(policy.KeyPortSpeed)

// withPortSpeed is the plan with root ports that advertise at least the fastest link of a
// device on the host, where the policy asks for it. One -global is for all of them:
// KubeVirt keeps the qemu:commandline of a plugin's answer, and loses its qemu:override
// (virtwrap/converter/translate/translate.go, transferQEMUCommandline). The user's own
// option for it stays.
func withPortSpeed(plan *placement.Plan, sysfs fs.FS) *placement.Plan {
	if plan.Policy.PortSpeed != policy.PortSpeedHost || len(plan.Devices) == 0 {
		return withOption(plan, portSpeedOption, nil)
	}
	fastest, host, warnings := fastestLink(plan, sysfs)
	say := func(option *domain.Option, format string, args ...any) *placement.Plan {
		next := withOption(plan, portSpeedOption, option)
		return next.With(next.Changes, extra(policy.KeyPortSpeed, fmt.Sprintf(format, args...)), warnings)
	}
	port := libvirt.DefaultRootPortLink().Speed
	without := plan.Domain().WithOptions(map[string]*domain.Option{portSpeedOption: nil})
	switch users, _ := without.Global(libvirt.RootPortDriver, libvirt.SpeedProperty); {
	case !libvirt.HasExpanderBuses(plan.Domain()):
		return say(nil, "machine %q has no root ports", plan.Domain().Machine)
	case host == "":
		return say(nil, "root ports stay as they are, since the host shows no link speed of a PCI device")
	case users != nil:
		return say(nil, "the domain's own %s %q stays; %s", users.Name, topology.Abridge(users.Value), host)
	case fastest <= port:
		return say(nil, "root ports advertise QEMU's %s GT/s, which is enough: %s", number(port), host)
	}
	speeds := libvirt.PortSpeeds()
	to := speeds[len(speeds)-1]
	if i := slices.IndexFunc(speeds, func(s libvirt.PortSpeed) bool { return s.GTs >= fastest }); i >= 0 {
		to = speeds[i]
	}
	return say(&domain.Option{Name: domain.OptionGlobal, Value: fmt.Sprintf("driver=%s,property=%s,value=%s,id=%s",
		libvirt.RootPortDriver, libvirt.SpeedProperty, to.Name, portSpeedOption)},
		"root ports advertise %s GT/s, which takes QEMU %s or newer: %s", number(to.GTs), to.Since, host)
}

// fastestLink is the speed of the fastest link of a passed through PCI device on the
// host, and a sentence about it, "" where none is known. A mediated device has a link of
// its own.
func fastestLink(plan *placement.Plan, sysfs fs.FS) (fastest float64, text string, warnings []reasons.Warning) {
	var devices []*topology.Device
	for _, d := range plan.Devices {
		if d.Function != nil && d.ID.Kind() == topology.KindPCI {
			devices = append(devices, d.Function)
		}
	}
	speeds, problems := host.ReadMaxLinkSpeeds(sysfs, linkEnds(devices))
	for _, d := range devices {
		if speed := speedOf(d, speeds); speed > fastest {
			fastest, text = speed, fmt.Sprintf("the fastest link on the host, of %s, has %s GT/s", d.Address, number(speed))
		}
	}
	return fastest, text, warningsOf(problems)
}

func number(speed float64) string { return strconv.FormatFloat(speed, 'f', -1, 64) }

// withSpeedWarning is the plan with a warning where NCCL and RCCL would take the
// speed of emulated root ports for that of a faster link. They take speed and
// width each as the minimum of a device and the port above it (src/graph/xml.cc,
// ncclTopoGetXmlFromSys), and the slowest link on the path between two devices.
// So it takes two fast devices, at least one of them a GPU. Link speeds are
// only read for devices that may be such.
func withSpeedWarning(plan *placement.Plan, sysfs fs.FS) *placement.Plan {
	if plan.Policy.NCCLTopology != policy.NCCLTopologyNone {
		return plan
	}
	devices := atRootPorts(plan)
	if !topology.HasPair(devices) {
		return plan
	}
	port := libvirt.RootPortLink(plan.Domain()).Speed
	speeds, problems := host.ReadMaxLinkSpeeds(sysfs, linkEnds(devices))
	fast := slices.DeleteFunc(devices, func(d *topology.Device) bool { return speedOf(d, speeds) <= port })
	warnings := warningsOf(problems)
	if topology.HasPair(fast) {
		highest := 0.0
		for _, d := range fast {
			highest = max(highest, speedOf(d, speeds))
		}
		warnings = append(warnings, reasons.NewWarning(reasons.CodePortSpeed, nil, fmt.Sprintf(
			"emulated root ports advertise %s GT/s, and NCCL believes them: %d GPUs and NICs have a faster link on the host, the fastest %s GT/s",
			number(port), len(fast), number(highest))))
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
		ends = append(ends, d.LinkEnd())
		if above := d.PortAbove(); above != nil {
			ends = append(ends, *above)
		}
	}
	return ends
}

// speedOf is the speed that a device and the port above it support; 0 where that
// of the device is not known.
func speedOf(d *topology.Device, speeds map[topology.Address]float64) float64 {
	speed := speeds[d.LinkEnd()]
	if above := d.PortAbove(); above != nil {
		if port, known := speeds[*above]; known {
			return min(speed, port)
		}
	}
	return speed
}
