package doctor

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// barWindow checks whether the 64-bit BARs of the devices fit into the window of
// the guest's firmware.
func barWindow(in Inputs) []Result {
	sum, aligned := in.barBytes()
	if sum == 0 {
		return nil
	}
	window, reason, known := in.window()
	if !known {
		return note(fmt.Sprintf("a host-passthrough CPU has the host's bits; OVMF's window is an eighth of the address space, so %d bits are enough", bits.Len64(aligned-1)+3),
			"64-bit BARs of %s; the guest's physical address bits are not known", topology.BytesNeeded(sum))
	}
	hint := in.windowHint()
	switch {
	case sum > window:
		return fail(hint, "64-bit BARs of %s, the window has %s: %s", topology.BytesNeeded(sum), topology.BytesThere(window), reason)
	case aligned > window:
		return warn(hint, "64-bit BARs of %s take %s with each device aligned to its largest BAR, the window has %s: %s",
			topology.BytesNeeded(sum), topology.BytesNeeded(aligned), topology.BytesThere(window), reason)
	}
	return pass("64-bit BARs of %s, the window has %s: %s", topology.BytesNeeded(sum), topology.BytesThere(window), reason)
}

// windowHint is how the guest gets a larger window. A guest that has the host's
// bits already gets no more of them by another CPU, and X-PciMmio64Mb is OVMF's.
func (in Inputs) windowHint() string {
	var ways []string
	if _, source := in.guestBits(); source != hostsBits {
		ways = append(ways, "give the guest a host-passthrough CPU")
	}
	if in.Plan.Domain().UEFI {
		ways = append(ways, "set -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=MIB in qemu:commandline")
	}
	if len(ways) == 0 {
		return "pass fewer devices through"
	}
	return strings.Join(ways, ", or ")
}

// barBytes is the sum of the 64-bit BARs of the PCI devices, and the same with
// each device rounded up to its largest BAR: a port's window begins at a
// multiple of that, so the space after the large BAR is lost to the next port.
// By this 8 GPUs with BARs of 512 GiB take 8 TiB, which is what made edk2 double
// its window (edk2 pull request 12997).
func (in Inputs) barBytes() (sum, aligned uint64) {
	for _, f := range in.guestFunctions() {
		var own, largest uint64
		for _, bar := range f.LargeBARs() {
			own += bar.Bytes
			largest = max(largest, bar.Bytes)
		}
		sum += own
		if largest > 0 {
			aligned += (own + largest - 1) / largest * largest
		}
	}
	return sum, aligned
}

// The physical address bits of QEMU's CPUs, and what OVMF makes of them.
const (
	// defaultPhysBits are those of a CPU model without more (QEMU
	// target/i386/cpu.c, TCG_PHYS_ADDR_BITS).
	defaultPhysBits = 40
	// ovmfBits is the most that OVMF uses with four levels of page tables (edk2
	// OvmfPkg/Library/PlatformInitLib/MemDetect.c).
	ovmfBits = 46
	// windowShift: OVMF's window is an eighth of the space (edk2 stable202211;
	// a quarter after August 2026).
	windowShift = 3
)

// window returns how many bytes the firmware has for 64-bit BARs, and why; false
// when neither the guest's address bits nor the domain say it.
func (in Inputs) window() (bytes uint64, reason string, known bool) {
	guest, source := in.guestBits()
	d := in.Plan.Domain()
	set := d.Addressing.WindowBytes
	used := min(guest, ovmfBits)
	switch {
	case !d.UEFI && guest > 0:
		return 1 << guest, fmt.Sprintf("SeaBIOS, %d bits of %s", guest, source), true
	case d.UEFI && set > uint64(1)<<used>>windowShift:
		return set, "OVMF, X-PciMmio64Mb", true
	case d.UEFI && guest > 0:
		return 1 << used >> windowShift, fmt.Sprintf("OVMF, an eighth of %d bits of %s", used, source), true
	}
	return 0, "", false
}

// hostsBits says that the guest's address bits are the host's.
const hostsBits = "the host"

// guestBits returns how many physical address bits the guest's CPU has, and
// their source; 0 when that is not known. A host-passthrough CPU has the host's
// (QEMU target/i386/host-cpu.c), a host-model CPU by the maxphysaddr of
// libvirt's domain capabilities as well. A named model has them only where the
// vendor of QEMU says so by the machine: Red Hat for all of its own, Ubuntu for
// those with the suffix -hpb. QEMU chooses which machine "q35" is.
func (in Inputs) guestBits() (bits int, source string) {
	d := in.Plan.Domain()
	a := d.Addressing
	switch {
	case d.Arch == "aarch64":
		return 0, ""
	case a.PhysBits > 0:
		return a.PhysBits, "maxphysaddr"
	case a.HostBits && a.LimitBits > 0:
		return min(in.HostPhysBits, a.LimitBits), hostsBits
	case a.HostBits, a.CPUMode == "host-passthrough", a.CPUMode == "host-model", a.CPUMode == "maximum",
		strings.Contains(d.Machine, "rhel"), strings.HasSuffix(d.Machine, "-hpb"):
		return in.HostPhysBits, hostsBits
	case d.Machine == "q35":
		return 0, ""
	}
	return defaultPhysBits, "the CPU model"
}

// ioSpace checks whether SeaBIOS has room for all ports with an I/O BAR under
// them: with one too many it stops, and so does the guest.
func ioSpace(in Inputs) []Result {
	switch d := in.Plan.Domain(); {
	case d.Arch == "aarch64":
		return nil
	case d.UEFI:
		return pass("the domain boots with UEFI, which leaves I/O BARs without room unassigned")
	}
	withIO := slices.DeleteFunc(in.guestFunctions(), func(f *topology.Device) bool { return !f.HasIO() })
	return orPass(in.warnings(Fail, reasons.CodeIOSpace), "%s with an I/O BAR, SeaBIOS has room for %d ports with one",
		topology.Counted(len(withIO), "device"), placement.MaxIOPorts)
}

// pciHole checks that the 64-bit window of the root bus is there when devices
// with 64-bit BARs are on it: pcihole64 sizes no other window.
func pciHole(in Inputs) []Result {
	if !in.Plan.Domain().PCIHole64Off {
		return pass("not disabled")
	}
	const hint = "remove the annotation kubevirt.io/disablePCIHole64 from the VMI"
	var onRootBus []topology.Address
	for _, f := range in.guestFunctions() {
		n := in.Plan.GuestTree.Node(topology.PCIDevice(f.Address))
		if len(f.LargeBARs()) > 0 && n.Top().ID == topology.Index(0) {
			onRootBus = append(onRootBus, f.Address)
		}
	}
	if len(onRootBus) > 0 {
		return warn(hint, "pcihole64 is 0, and devices with 64-bit BARs are on the root bus: %s", list(onRootBus))
	}
	return note(hint, "pcihole64 is 0; the devices are under expander buses, whose windows it does not size")
}
