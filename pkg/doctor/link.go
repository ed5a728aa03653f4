package doctor

import (
	"hook-sidecar/pkg/topology"
)

func linkChecks() []Check {
	return []Check{
		{"link-degraded", linkDegraded},
		{"acs", accessControl},
		{"ats", addressTranslation},
	}
}

// hop is the lower end of a link with the port above it.
type hop struct {
	below, above *topology.Device // above is nil where the host shows no port
}

// hops are the links between the devices and the CPU, each once: a device's
// own, and that of each switch above it. Between root ports and endpoints a
// path alternates: downstream side of a link, upstream side of the next.
func (in Inputs) hops() []hop {
	var all []hop
	seen := map[topology.Address]bool{}
	add := func(below, above *topology.Device) {
		if below != nil && !seen[below.Address] {
			seen[below.Address] = true
			all = append(all, hop{below, above})
		}
	}
	for _, f := range in.hardware() {
		for i := 1; i < len(f.Bridges); i += 2 {
			add(in.Host.Device(f.Bridges[i]), in.Host.Device(f.Bridges[i-1]))
		}
		var above *topology.Device
		if len(f.Bridges) > 0 {
			above = in.Host.Device(f.Bridges[len(f.Bridges)-1])
		}
		add(f, above)
	}
	return all
}

// linkDegraded asks whether each link runs at what both of its ends can do.
func linkDegraded(in Inputs) []finding {
	var found []finding
	known := 0
	for _, h := range in.hops() {
		can := h.can()
		if can == nil || h.below.Details.Link == nil {
			continue
		}
		known++
		found = append(found, h.judge(*h.below.Details.Link, *can)...)
	}
	switch {
	case known > 0:
		return orPass(found, "%s at full speed and width", topology.Counted(known, "link"))
	case len(in.hardware()) > 0:
		return note("", "the state of no link is shown")
	}
	return nil
}

// can is what both ends of a link can do, nil when that is not known.
func (h hop) can() *topology.Link {
	if h.below.Details == nil || h.below.Details.MaxLink == nil {
		return nil
	}
	can := *h.below.Details.MaxLink
	if h.above != nil && h.above.Details != nil && h.above.Details.MaxLink != nil {
		can.Speed = min(can.Speed, h.above.Details.MaxLink.Speed)
		can.Width = min(can.Width, h.above.Details.MaxLink.Width)
	}
	return &can
}

func (h hop) judge(now, can topology.Link) []finding {
	id := topology.PCIDevice(h.below.Address)
	own := *h.below.Details.MaxLink
	switch {
	case now.Width < can.Width:
		return of(id, warn("reseat the card or its riser, and check the slot's bifurcation in the firmware",
			"the link of %s has %d of %d lanes", h.below.Address, now.Width, can.Width))
	case now.Speed < can.Speed:
		return of(id, warn("look again under load: an idle GPU lowers its speed to save power; else reseat the card or its riser",
			"the link of %s runs at %s of %s", h.below.Address, now, can))
	case can.Speed < own.Speed || can.Width < own.Width:
		return of(id, note("a faster slot would serve it better", "%s can do %s, its slot %s", h.below.Address, own, can))
	}
	return nil
}

// accessControl asks whether devices that guests get are apart from others:
// what shares an IOMMU group across device numbers has a port above it without
// ACS, and goes to one guest as a whole. Where the configuration space can be
// read it also says whether ports send requests between devices up to the
// IOMMU.
func accessControl(in Inputs) []finding {
	found := in.sharedGroups()
	ports, readable, redirecting := 0, 0, 0
	seen := map[topology.Address]bool{}
	for _, f := range in.hardware() {
		for i := 0; i < len(f.Bridges); i += 2 {
			port := in.Host.Device(f.Bridges[i])
			if port == nil || seen[port.Address] {
				continue
			}
			seen[port.Address] = true
			ports++
			if port.Details != nil && port.Details.ExtendedConfig {
				readable++
				if acs := port.Details.ACS; acs != nil && acs.RequestRedirect && acs.CompletionRedirect {
					redirecting++
				}
			}
		}
	}
	switch {
	case ports == 0:
		return found
	case readable < ports:
		return append(found, note("run doctor as root on the node, not on a snapshot",
			"the ACS of %s cannot be read here; the IOMMU groups tell what is apart", topology.Counted(ports-readable, "port"))...)
	case redirecting > 0:
		return append(found, note("peer-to-peer traffic below such a port takes the way over the CPU unless the devices use ATS",
			"ports that send requests between devices up to the IOMMU: %d of %d", redirecting, ports)...)
	}
	return orPass(found, "%s without redirection", topology.Counted(ports, "port"))
}

// sharedGroups are the IOMMU groups that reach beyond one device number.
func (in Inputs) sharedGroups() []finding {
	var found []finding
	told := map[int]bool{}
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil || told[*f.IOMMUGroup] {
			continue
		}
		for _, other := range in.Host.Devices {
			if other.IOMMUGroup == nil || *other.IOMMUGroup != *f.IOMMUGroup || other.IsBridge || other.Address.SameDevice(f.Address) {
				continue
			}
			told[*f.IOMMUGroup] = true
			found = append(found, of(topology.PCIDevice(f.Address), warn("both go to one guest or to none: switch ACS on in the firmware, or use slots below different ports",
				"%s and %s share IOMMU group %d, so no port above them keeps them apart", f.Address, other.Address, *f.IOMMUGroup))...)
			break
		}
	}
	return found
}

// addressTranslation asks whether devices have ATS, with which traffic between
// them need not go over the CPU where ACS is on.
func addressTranslation(in Inputs) []finding {
	var without []topology.Address
	hidden, readable := 0, 0
	for _, f := range in.hardware() {
		switch {
		case f.Details == nil || !f.Details.ExtendedConfig:
			hidden++
		case !f.Details.ATS:
			readable++
			without = append(without, f.Address)
		default:
			readable++
		}
	}
	switch {
	case hidden > 0:
		return note("run doctor as root on the node, not on a snapshot", "the ATS of %s cannot be read here", topology.Counted(hidden, "device"))
	case len(without) > 0:
		return note("for GPUDirect below ports with ACS: mlxconfig -d DEVICE set ATS_ENABLED=true on ConnectX, then reboot the host",
			"without ATS: %s", list(without))
	case readable > 0:
		return pass("%s with ATS", topology.Counted(readable, "device"))
	}
	return nil
}
