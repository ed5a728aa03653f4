package guest

import (
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// writePortSpeed makes root ports advertise at least the fastest link of a device on the host, with
// one -global for all; the user's own stays. KubeVirt keeps the qemu:commandline of a plugin's
// answer (virtwrap/converter/translate/translate.go, transferQEMUCommandline).
func writePortSpeed(vm VM) Writing {
	if len(vm.Devices) == 0 {
		return Writing{}
	}
	fastest, link := fastestLink(vm)
	mark := optionMark(policy.KeyPortSpeed)
	port := libvirt.DefaultRootPortLink().Speed
	without := vm.Domain().After(domain.Changes{Managed: map[domain.Mark]domain.Managed{mark: {}}})
	switch users, _ := without.Global(libvirt.RootPortDriver, libvirt.SpeedProperty); {
	case !libvirt.HasExpanderBuses(vm.Domain()):
		return Writing{Line: fmt.Sprintf("machine %q has no root ports", vm.Domain().Machine)}
	case link == "":
		return Writing{Line: "root ports stay as they are, since the host shows no link speed of a PCI device"}
	case users != nil:
		return Writing{Line: fmt.Sprintf("the domain's own %s %q stays; %s", users.Name, topology.Abridge(users.Value), link)}
	case fastest <= port:
		return Writing{Line: fmt.Sprintf("root ports advertise QEMU's %s GT/s, which is enough: %s", number(port), link)}
	}
	speeds := libvirt.PortSpeeds()
	to := speeds[len(speeds)-1]
	if i := slices.IndexFunc(speeds, func(s libvirt.PortSpeed) bool { return s.GTs >= fastest }); i >= 0 {
		to = speeds[i]
	}
	value := fmt.Sprintf("driver=%s,property=%s,value=%s,id=%s", libvirt.RootPortDriver, libvirt.SpeedProperty, to.Name, mark)
	return one(domain.Option{Name: domain.OptionGlobal, Value: value},
		fmt.Sprintf("root ports advertise %s GT/s, which takes QEMU %s or newer: %s", number(to.GTs), to.Since, link))
}

// fastestLink returns the speed of the fastest link of a passthrough PCI device on the host, and
// a text about it, "" where none is known.
func fastestLink(vm VM) (fastest float64, text string) {
	for _, d := range vm.Devices {
		a, isPCI := d.ID.PCI()
		if speed := linkSpeed(vm.Host, d.Function); isPCI && speed > fastest {
			fastest, text = speed, fmt.Sprintf("the fastest link on the host, of %s, has %s GT/s", a, number(speed))
		}
	}
	return fastest, text
}

// linkSpeed returns the speed of the fastest link of a function on the host; 0 where unknown.
func linkSpeed(h *topology.Host, f *topology.Device) float64 {
	if link := h.BestLink(f); link != nil {
		return link.Speed
	}
	return 0
}

func number(speed float64) string { return strconv.FormatFloat(speed, 'f', -1, 64) }

// SpeedWarnings warns where NCCL and RCCL would take the speed of emulated root ports for that of
// a faster link. They take speed and width each as the minimum of a device and the port above it
// (src/graph/xml.cc, ncclTopoGetXmlFromSys), and the slowest link on the path between two
// devices, so that only pairs of fast devices count, at least one of them a GPU.
func SpeedWarnings(plan *placement.Plan) []reasons.Warning {
	if plan.Policy.NCCLTopology != policy.NCCLTopologyNone {
		return nil
	}
	port := libvirt.PortLink(plan.Domain(), domain.Controller{Model: domain.RootPort}).Speed
	fast := slices.DeleteFunc(atRootPorts(plan), func(d *topology.Device) bool { return linkSpeed(plan.Host, d) <= port })
	if !topology.HasPair(fast) {
		return nil
	}
	highest := 0.0
	for _, d := range fast {
		highest = max(highest, linkSpeed(plan.Host, d))
	}
	return []reasons.Warning{reasons.NewWarning(reasons.CodePortSpeed, nil, fmt.Sprintf(
		"emulated root ports advertise %s GT/s: NCCL underestimates the links of %d GPUs and NICs, the fastest of which has %s GT/s on the host",
		number(port), len(fast), number(highest)))}
}

// atRootPorts returns the host's functions of the GPUs and NICs that the topology file would name
// and that are directly under a root port of the guest. The link of a mediated device is unknown.
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
