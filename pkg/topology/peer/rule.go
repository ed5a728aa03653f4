package peer

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// Readiness says whether one device can read and write the BARs of another.
type Readiness string

// The degrees of readiness.
const (
	Ready       Readiness = "ready"                    // straight through a switch
	ThroughRoot Readiness = "through the root complex" // it works, as fast as the CPU passes it on
	NotReady    Readiness = "not ready"                // it fails, or delivers to another device
	Unknown     Readiness = "unknown"
)

// Works reports whether what one device sends arrives at the other.
func (r Readiness) Works() bool { return r == Ready || r == ThroughRoot }

// Answer is what the rule says about a pair.
type Answer struct {
	Cause     Cause              // which decides the readiness
	Functions []topology.Address // the ports, or the requester, that are the cause; may be empty
}

// isolating are the bits that Linux turns on at each port for the IOMMU (drivers/pci/pci.c,
// pci_std_enable_acs), and without which it does not isolate devices (drivers/iommu/iommu.c,
// REQ_ACS_FLAGS).
const isolating = topology.SourceValidation | topology.RequestRedirect |
	topology.CompletionRedirect | topology.UpstreamForwarding

// Judge returns what the rule says about a pair. What the ports let through has to be mapped, too.
func Judge(f Facts) Answer {
	a := f.judge()
	if f.AtHT && a.Cause.Readiness().Works() {
		return Answer{CauseAddressRange, nil}
	}
	return a
}

// judge returns what the first row of the rule that applies says. Which port decides where a
// request goes is in PCI Express 5.0, 6.12.3.
func (f Facts) judge() Answer {
	ports := slices.Concat(f.Own, f.Peers, f.Shared)
	unreadable, partial := f.unreadable(ports)
	unknown := slices.Concat(unreadable, partial)
	egress := where(ports, func(p Port) bool { return p.has(topology.EgressControl) })
	open := where(ports, Port.IsOpen)
	blocking := where(slices.Concat(f.Own, f.Shared), func(p Port) bool {
		return p.has(topology.TranslationBlocking)
	})

	switch {
	// A BAR that is not mapped fails wherever the ports lead.
	case f.Mapping == NotMapped:
		return Answer{CauseNotMapped, nil}
	case f.Mapping == MappingUnknown:
		return Answer{CauseMappingUnknown, nil}
	case f.Obstacle != "":
		return Answer{f.Obstacle, nil}

	// Groups show what ACS was at boot: one group proves that a bit was off. Two do not prove that
	// all are on now, since setpci does not change them.
	case len(unknown) > 0 && f.SameGroup:
		return Answer{CauseSameGroup, nil}
	case len(unreadable) > 0:
		return Answer{CauseUnreadable, unreadable}
	case len(partial) > 0:
		return Answer{CauseNotRecorded, partial}

	case !slices.ContainsFunc(ports, func(p Port) bool { return !p.IsVera }):
		return f.judgeVera()

	// From here on requests have to go up, but for those that the requester has translated.
	case len(egress) > 0:
		return Answer{CauseEgressControl, egress}
	case len(open) > 0:
		return Answer{CauseNotIsolated, open}
	case f.SameGroup:
		return Answer{CauseSameGroup, nil}
	case f.ATS && len(blocking) > 0:
		return Answer{CauseTranslationBlocked, blocking}
	case f.goesDirect() && f.readsComeBackUp() && f.Root != RootListed:
		return Answer{CauseReadsThroughRoot, nil}
	case f.goesDirect():
		return Answer{CauseDirect, nil}
	}

	return f.judgeRoot()
}

// judgeVera judges devices on root ports of NVIDIA's Vera, which pass peer requests themselves if
// completions are not redirected (rdma-core, rdma_topo).
func (f Facts) judgeVera() Answer {
	const wanted = isolating &^ topology.CompletionRedirect
	others := where(slices.Concat(f.Own, f.Peers, f.Shared), func(p Port) bool {
		return p.ACS == nil || p.ACS.Control&isolating != wanted
	})

	switch {
	case f.ATS:
		return Answer{CauseATSOnVera, []topology.Address{f.Requester}}
	case len(others) > 0:
		return Answer{CauseVeraPorts, others}
	case f.SameGroup:
		return Answer{CauseSameGroup, nil}
	}

	return Answer{CauseVera, nil}
}

// judgeRoot judges a pair whose requests go up to the root complex.
func (f Facts) judgeRoot() Answer {
	switch {
	case f.Root == RootUnknown:
		return Answer{CauseRootUnknown, nil}
	case f.Root == RootUnlisted:
		return Answer{CauseRootRefuses, nil}
	case !f.ATS:
		return Answer{CauseNoATS, []topology.Address{f.Requester}}
	case f.NoTranslation:
		return Answer{CauseIOMMUWithoutATS, nil}
	case !f.OneSwitch:
		return Answer{CauseNoCommonSwitch, nil}
	}

	return Answer{CauseNoDirectTranslated, []topology.Address{f.Own[len(f.Own)-1].Address}}
}

// goesDirect reports whether requests of the requester turn in the switch where the paths part: it
// translates them, and its port of that switch lets them through.
func (f Facts) goesDirect() bool {
	return f.OneSwitch && f.ATS && !f.NoTranslation && f.Own[len(f.Own)-1].has(topology.DirectTranslated)
}

// readsComeBackUp reports whether the answers to reads go up at the completer's port of that
// switch, unless they are in relaxed order.
func (f Facts) readsComeBackUp() bool {
	return f.Peers[len(f.Peers)-1].has(topology.CompletionRedirect)
}

// unreadable returns the functions with registers that cannot be read, and those with registers of
// which a snapshot has only some bits.
func (f Facts) unreadable(ports []Port) (unreadable, partial []topology.Address) {
	unreadable = where(ports, func(p Port) bool { return p.Unreadable })
	if f.ATSUnreadable {
		unreadable = append(unreadable, f.Requester)
	}

	return unreadable, where(ports, func(p Port) bool { return p.ACS != nil && p.ACS.Partial })
}

// IsOpen reports whether a port may pass requests to its siblings. A root complex without ACS is
// judged by Linux's list; a switch without ACS passes all of them (PCI Express 5.0, 6.12.1.1).
func (p Port) IsOpen() bool {
	if p.ACS == nil {
		return !p.IsRootPort
	}
	return p.ACS.Capable&isolating&^p.ACS.Control != 0
}

// where returns the addresses of the ports that satisfy a condition.
func where(ports []Port, satisfies func(Port) bool) []topology.Address {
	var found []topology.Address
	for _, p := range ports {
		if satisfies(p) {
			found = append(found, p.Address)
		}
	}

	return found
}
