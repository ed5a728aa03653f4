package doctor

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
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

	// Missing lanes count before a low speed, which may be that of an idle device.
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
// read it also reports ports that do not send peer-to-peer requests up to the IOMMU.
func accessControl(in Inputs) []Result {
	found := in.sharedGroups()
	var unreadable, partial, egress, open []topology.Address
	ports, _ := in.paths()
	for _, port := range ports {
		switch acs := peer.PortOf(in.Host, port); {
		case acs.Unreadable:
			unreadable = append(unreadable, port.Address)
		case acs.ACS != nil && acs.ACS.Partial:
			partial = append(partial, port.Address)
		case acs.ACS != nil && acs.ACS.Control.Has(topology.EgressControl):
			egress = append(egress, port.Address)
		case acs.IsOpen():
			open = append(open, port.Address)
		}
	}

	switch {
	case len(ports) == 0:
		return found

	// While one port is not known, the others prove nothing about a path: only the groups do.
	case len(unreadable) > 0:
		return append(found, note(peer.AsRoot,
			"the ACS of %s cannot be read here; the IOMMU groups show what was isolated at boot",
			words.Counted(len(unreadable), "port"))...)
	case len(partial) > 0:
		return append(found, note(peer.CauseNotRecorded.Remedy(),
			"the snapshot has only some bits of the ACS of %s",
			words.Counted(len(partial), "port"))...)
	}

	if len(egress) > 0 {
		found = append(found, note(peer.CauseEgressControl.Remedy(), "%s: %s",
			peer.CauseEgressControl.Meaning(), list(egress))...)
	}

	if len(open) > 0 {
		found = append(found, warn(peer.CauseNotIsolated.Remedy()+in.argumentsOfACS(), "%s: %s",
			peer.CauseNotIsolated.Meaning(), list(open))...)
	}

	return orPass(found, "%s to the IOMMU", portsSend(len(ports)))
}

// argumentsOfACS names the arguments of the node's kernel that change ACS, as the end of a hint.
func (in Inputs) argumentsOfACS() string {
	var named []string
	for _, argument := range in.Host.Arguments {
		changes := slices.ContainsFunc([]string{
			"disable_acs_redir=", "config_acs=", "noats", "pcie_acs_override=",
		}, func(option string) bool { return strings.Contains(argument, option) })
		if changes {
			named = append(named, argument)
		}
	}

	if len(named) == 0 {
		return ""
	}

	return "; the node's kernel was started with " + strings.Join(named, " ")
}

func portsSend(n int) string {
	if n == 1 {
		return "1 port sends requests up"
	}
	return fmt.Sprintf("%d ports send requests up", n)
}

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

// addressTranslation checks the host's paths from NICs and drives to the GPUs that are under one
// switch with them: whether peer-to-peer traffic goes straight through the switch, which takes ATS
// of the NIC or drive, through the root complex, or nowhere.
func addressTranslation(in Inputs) []Result {
	ids := in.subjects()
	pairs := peer.Near(in.Host, in.Host.Tree(ids), ids, peer.Guest{UsesIOMMUFD: in.usesIOMMUFD})
	var found []Result
	if in.hasDomain() {
		found = in.found("ats") // paths that its guest shows as near, and that are not ready
	}

	// What the findings of the only VM say of paths that are not ready is not said again.
	isSaid := len(found) > 0 && len(in.Others) == 0
	for _, g := range peer.ByCause(pairs) {
		if isSaid && g.Cause.Readiness() == peer.NotReady {
			continue
		}

		status := map[peer.Readiness]Status{
			peer.Ready: Pass, peer.ThroughRoot: Note, peer.NotReady: Warn, peer.Unknown: Note,
		}[g.Cause.Readiness()]

		hint := g.Remedy()
		if status == Pass {
			hint = ""
		}

		found = append(found, result(status, hint,
			"from %s to GPUs under one switch: %s (%s): %s", list(g.Requesters()),
			g.Cause.Readiness(), g.Cause, g.Cause.Meaning())...)
	}

	return orPass(found, "no NIC or drive is under one switch with a GPU")
}

// usesIOMMUFD reports whether a domain passes a device through with iommufd.
func (in Inputs) usesIOMMUFD(id topology.DeviceID) bool {
	return slices.ContainsFunc(in.vms(), func(vm VMInputs) bool {
		return vm.Plan != nil && vm.Plan.Domain().UsesIOMMUFD(id)
	})
}
