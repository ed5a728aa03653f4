package domain

import "hook-sidecar/pkg/domain/xmledit"

// Addressing has the physical address bits of the guest. A value that libvirt would refuse
// counts as absent, because placement does not need it.
type Addressing struct {
	CPUMode   string // cpu/@mode, "" when absent
	PhysBits  int    // cpu/maxphysaddr/@bits, 0 when absent
	HostBits  bool   // cpu/maxphysaddr/@mode is "passthrough"
	LimitBits int    // cpu/maxphysaddr/@limit, 0 when absent
}

// WindowEntry is the fw_cfg entry with the least size of OVMF's 64-bit window, in MiB (edk2
// OvmfPkg/Library/PlatformInitLib/MemDetect.c).
const WindowEntry = "opt/ovmf/X-PciMmio64Mb"

// maxWindowMiB is the size of the address space of 52 bits, x86's most (Intel SDM volume 3, 4.1.4).
const maxWindowMiB = 1 << (52 - 20)

func (r *reader) addressing(root *xmledit.Element) error {
	a := &r.domain.Addressing
	a.CPUMode = root.Child("cpu").Value("mode")
	e := first(root, "cpu", "maxphysaddr")
	a.HostBits = e.Value("mode") == "passthrough"
	a.PhysBits, a.LimitBits = physBits(e.Value("bits")), physBits(e.Value("limit"))
	return nil
}

// WindowBytes returns the value of WindowEntry in bytes, 0 where it is absent or not a number.
func (d *Domain) WindowBytes() uint64 {
	o := d.FWCfg(WindowEntry)
	if o == nil {
		return 0
	}
	n, ok := number(o.Key("string"), 10)
	if !ok || n > maxWindowMiB {
		return 0
	}
	return n << 20
}

// physBits reads a number of address bits, 0 for anything else.
func physBits(s string) int {
	n, ok := number(s, 10)
	if !ok || n > 64 {
		return 0
	}
	return int(n)
}
