package doctor

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

func linkDegraded(in Inputs) []Result {
	var found []Result
	known := 0
	_, lowerEnds := in.paths() // a port is the upper end of a link, and counts with the lower one
	for _, lower := range lowerEnds {
		if lower.Details == nil || lower.Details.Link == nil || lower.MaxLink == nil {
			continue
		}
		known++
		found = append(found, judgeLink(lower, *in.Host.BestLink(lower))...)
	}

	if known == 0 {
		return note("", "sysfs shows no link state")
	}

	return orPass(found, "%s at full speed and width", words.Counted(known, "link"))
}

// judgeLink compares a function's link with the best that both ends support.
func judgeLink(lower *topology.Function, best topology.Link) []Result {
	a, id := lower.Address, topology.PCIDevice(lower.Address)
	switch now, own := *lower.Details.Link, *lower.MaxLink; {
	case now.Width < best.Width:
		return about(id,
			warn("reseat the card or its riser, and check the slot's bifurcation in the firmware",
				"the link of %s has %d of %d lanes", a, now.Width, best.Width))

	case now.Speed < best.Speed:
		return about(id,
			warn("check again under load: an idle GPU lowers its speed to save power; otherwise "+
				"reseat the card or its riser",
				"the link of %s runs at %s instead of %s", a, now, best))

	case best.Speed < own.Speed || best.Width < own.Width:
		return about(id, note("use a faster slot", "%s supports %s, its slot %s", a, own, best))
	}

	return nil
}

// accessControl checks whether devices are isolated: those of one IOMMU group have a port
// without ACS above them, and can only go to one guest. If the configuration space can be
// read it also reports ports that send peer-to-peer requests up to the IOMMU.
func accessControl(in Inputs) []Result {
	found := in.sharedGroups()
	readable, redirecting := 0, 0
	ports, _ := in.paths()
	for _, port := range ports {
		if port.Details != nil && port.Details.ExtendedConfig {
			readable++
			if acs := port.Details.ACS; acs != nil && acs.Control.Has(topology.RequestRedirect) {
				redirecting++
			}
		}
	}

	switch {
	case len(ports) == 0:
		return found
	case readable < len(ports):
		return append(found, note(asRootHint,
			"the ACS of %s cannot be read here; the IOMMU groups show what is isolated",
			words.Counted(len(ports)-readable, "port"))...)

	case redirecting > 0:
		return append(found,
			note("peer-to-peer traffic under these ports goes through the CPU unless the devices "+
				"use ATS",
				"ports that send peer-to-peer requests to the IOMMU: %d of %d", redirecting,
				len(ports))...)
	}

	return orPass(found, "%s without redirection", words.Counted(len(ports), "port"))
}

const asRootHint = "run doctor, or take the snapshot, as root on the node"

// sharedGroups reports the IOMMU groups with functions of several devices.
func (in Inputs) sharedGroups() []Result {
	var found []Result
	reported := map[int]bool{}
	for _, f := range in.functions() {
		if f.IOMMUGroup == nil || reported[*f.IOMMUGroup] {
			continue
		}

		i := slices.IndexFunc(in.Host.Functions, func(d topology.Function) bool {
			return topology.Same(d.IOMMUGroup, f.IOMMUGroup) && !d.IsBridge &&
				!d.Address.SameDevice(f.Address)
		})

		if i < 0 {
			continue
		}

		other := &in.Host.Functions[i]
		hint := "pass both to one guest or to none"
		if other.BlocksGroup() {
			hint = fmt.Sprintf("leave %s out of VMs: the node uses %s", f.Address, other.Address)
		}

		reported[*f.IOMMUGroup] = true
		found = append(found,
			about(topology.PCIDevice(f.Address),
				warn(hint+"; enable ACS in the firmware, or use slots under different ports",
					"%s and %s share IOMMU group %d: no port above isolates them",
					f.Address, other.Address, *f.IOMMUGroup))...)
	}

	return found
}

// addressTranslation checks whether devices have ATS, with which peer-to-peer traffic
// bypasses the CPU although ACS is enabled.
func addressTranslation(in Inputs) []Result {
	var without []topology.Address
	hardware, hidden := in.hardware(), 0
	for _, id := range hardware {
		switch f := in.Host.Function(id); {
		case f.Details == nil || !f.Details.ExtendedConfig:
			hidden++
		case !f.Details.ATS:
			without = append(without, f.Address)
		}
	}

	switch {
	case hidden > 0:
		return note(asRootHint, "the ATS of %s cannot be read here",
			words.Counted(hidden, "device"))
	case len(without) > 0:
		return note("for GPUDirect under ports with ACS: mlxconfig -d DEVICE set ATS_ENABLED=true "+
			"on ConnectX, then reboot the host",
			"without ATS: %s", list(without))
	}

	return pass("%s with ATS", words.Counted(len(hardware), "device"))
}
