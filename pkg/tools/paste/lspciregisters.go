package paste

import (
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// capabilityLine matches the line of a capability, which only root sees: Capabilities: [148 v1]
// Access Control Services (pciutils ls-ecaps.c, show_ext_caps).
var capabilityLine = lazyregexp.New(`^Capabilities: \[([0-9a-f]+)(?: v[0-9]+)?\] (.*)$`)

// The words of lspci for the bits of ACS and of AtomicOps, the lowest bit first (pciutils
// ls-ecaps.c, cap_acs; ls-caps.c, cap_express_dev2).
var (
	acsWords = []string{
		"SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans",
	}
	atomicWords = []string{"Routing", "32bit", "64bit", "128bitCAS"}
)

// register reads what a line says about registers of a function that only root sees.
func (r *lspciReader) register(tag, value, line string, d *topology.Function) {
	if found := capabilityLine.FindStringSubmatch(line); found != nil {
		r.capability(found[1], found[2], d)
		return
	}

	switch bits := topology.ACSBits(bitsOf(value, acsWords)); tag {
	case "ACSCap":
		detailsOf(d).ACS = &topology.ACS{Capable: bits}
	case "ACSCtl":
		if acs := detailsOf(d).ACS; acs != nil {
			acs.Control = bits
			delete(r.acs, d.Address)
		}
	case "AtomicOpsCap":
		const lowest = 6 // topology.AtomicRouting
		detailsOf(d).AtomicOps = new(topology.AtomicOps(bitsOf(value, atomicWords)) << lowest)
	case "AtomicOpsCtl":
		detailsOf(d).BlocksAtomics = new(bitsOf(value, []string{"EgressBlck"}) != 0)
	}
}

// capability reads the line of a capability.
func (r *lspciReader) capability(offset, name string, d *topology.Function) {
	const extended = 0x100
	if at, err := strconv.ParseUint(offset, 16, 16); err != nil || at < extended {
		return
	}

	detailsOf(d).ExtendedConfig = true
	switch {
	case strings.HasPrefix(name, "Access Control Services"):
		r.acs[d.Address] = true
	case strings.HasPrefix(name, "Address Translation Service"):
		d.Details.ATS = true
	}
}

// registers says of which functions the registers are not known: with -v and without -vv ACS has no
// bits, and a text may end before them.
func (r *lspciReader) registers() {
	for i := range r.m.Functions {
		if d := &r.m.Functions[i]; r.acs[d.Address] {
			d.Details.ExtendedConfig, d.Details.ACS = false, nil
		}
	}
}

// bitsOf reads flags as lspci prints them, SrcValid+ TransBlk-, by the words of the bits.
func bitsOf(flags string, names []string) (bits uint16) {
	for flag := range strings.FieldsSeq(flags) {
		for bit, name := range names {
			if flag == name+"+" {
				bits |= 1 << bit
			}
		}
	}

	return bits
}

func detailsOf(d *topology.Function) *topology.Details {
	if d.Details == nil {
		d.Details = &topology.Details{}
	}
	return d.Details
}
