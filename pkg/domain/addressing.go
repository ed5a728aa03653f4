package domain

import (
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// Addressing is what a domain says about how much memory the guest can address.
// Placement does not read it: a value that libvirt would refuse counts as absent
// and is not an error.
type Addressing struct {
	CPUMode     string // cpu/@mode, "" when absent
	PhysBits    int    // cpu/maxphysaddr/@bits, 0 when absent
	HostBits    bool   // cpu/maxphysaddr/@mode is "passthrough"
	LimitBits   int    // cpu/maxphysaddr/@limit, 0 when absent
	WindowBytes uint64 // the fw_cfg entry opt/ovmf/X-PciMmio64Mb of qemu:commandline, 0 when absent
}

// windowEntry is the fw_cfg entry that sets the least size of OVMF's 64-bit
// window, in MiB (edk2 OvmfPkg/Library/PlatformInitLib/MemDetect.c).
const windowEntry = "name=opt/ovmf/X-PciMmio64Mb,string="

// maxWindowMiB is the largest window that 52 bits of address can have, which is
// the most that x86 knows (Intel SDM volume 3, 4.1.4).
const maxWindowMiB = 1 << (52 - 20)

func (r *reader) addressing(root *xmledit.Element) error {
	a := &r.domain.Addressing
	a.CPUMode = root.Child("cpu").Value("mode")
	e := first(root, "cpu", "maxphysaddr")
	a.HostBits = e.Value("mode") == "passthrough"
	a.PhysBits, a.LimitBits = physBits(e.Value("bits")), physBits(e.Value("limit"))
	for e := range qemu(root, "commandline", "arg") {
		if text, found := strings.CutPrefix(e.Value("value"), windowEntry); found {
			if n, ok := number(text, 10); ok && n <= maxWindowMiB {
				a.WindowBytes = n << 20
			}
		}
	}
	return nil
}

// physBits is a number of address bits, 0 when it is not one.
func physBits(s string) int {
	n, ok := number(s, 10)
	if !ok || n > 64 {
		return 0
	}
	return int(n)
}
