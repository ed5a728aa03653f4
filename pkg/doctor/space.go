package doctor

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

func spaceChecks() []Check {
	return []Check{
		{"bar-window", barWindow},
		{"io-space", ioSpace},
		{"pci-hole", pciHole},
	}
}

// barWindow asks whether the 64-bit BARs of the devices fit into what the
// guest's firmware has for them.
func barWindow(in Inputs) []finding {
	if !in.hasDevices() {
		return nil
	}
	sum, aligned := in.barBytes()
	if sum == 0 {
		return nil
	}
	window, reason, known := in.window()
	if !known {
		return note(fmt.Sprintf("a host-passthrough CPU has the host's bits; OVMF's window is an eighth of the space: %d bits are enough", bits.Len64(aligned-1)+3),
			"64-bit BARs of %s; how many physical address bits the guest has is not known", topology.BytesNeeded(sum))
	}
	hint := in.windowHint()
	switch {
	case sum > window:
		return fail(hint, "64-bit BARs of %s, the window has %s: %s", topology.BytesNeeded(sum), topology.BytesThere(window), reason)
	case aligned > window:
		return warn(hint, "64-bit BARs of %s take %s where each device is aligned to its largest, the window has %s: %s",
			topology.BytesNeeded(sum), topology.BytesNeeded(aligned), topology.BytesThere(window), reason)
	}
	return pass("64-bit BARs of %s, the window has %s: %s", topology.BytesNeeded(sum), topology.BytesThere(window), reason)
}

// windowHint is how the guest gets a larger window. A guest that has the host's
// bits already gets no more of them by another CPU, and X-PciMmio64Mb is OVMF's.
func (in Inputs) windowHint() string {
	_, whose := in.guestBits()
	var ways []string
	if whose != hostsBits {
		ways = append(ways, "give the guest a host-passthrough CPU")
	}
	if in.Domain.UEFI {
		ways = append(ways, "set -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=MIB in qemu:commandline")
	}
	if len(ways) == 0 {
		return "pass fewer devices through"
	}
	return strings.Join(ways, ", or ")
}

// barBytes is the sum of the 64-bit BARs of the PCI devices, and the same with
// each device rounded up to its largest BAR: a port's window begins at a
// multiple of that, so that what is behind the large BAR keeps the next port
// off. By this 8 GPUs with BARs of 512 GiB take 8 TiB, which is what made edk2
// double its window (edk2 pull request 12997).
func (in Inputs) barBytes() (sum, aligned uint64) {
	for _, d := range in.Plan.Devices {
		f := in.Host.Function(d.ID)
		if d.ID.Kind() != topology.KindPCI || f == nil {
			continue
		}
		var own, largest uint64
		for _, bar := range f.BARs {
			if bar.Is64 && !bar.IO {
				own += bar.Bytes
				largest = max(largest, bar.Bytes)
			}
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

// window is the bytes that the firmware has for 64-bit BARs and why; false when
// the guest's address bits are not known and nothing else says it.
func (in Inputs) window() (bytes uint64, reason string, known bool) {
	guest, whose := in.guestBits()
	set := in.Domain.Addressing.WindowBytes
	used := min(guest, ovmfBits)
	switch {
	case !in.Domain.UEFI && guest > 0:
		return 1 << guest, fmt.Sprintf("SeaBIOS, %d bits of %s", guest, whose), true
	case in.Domain.UEFI && set > uint64(1)<<used>>windowShift:
		return set, "OVMF, X-PciMmio64Mb", true
	case in.Domain.UEFI && guest > 0:
		return 1 << used >> windowShift, fmt.Sprintf("OVMF, an eighth of %d bits of %s", used, whose), true
	}
	return 0, "", false
}

// hostsBits says that the guest's address bits are the host's.
const hostsBits = "the host"

// guestBits is how many physical address bits the guest's CPU has, and where
// they come from; 0 when that is not known. A host-passthrough CPU has the
// host's (QEMU target/i386/host-cpu.c), a host-model CPU by the maxphysaddr of
// libvirt's domain capabilities as well. A named model has them only where the
// vendor of QEMU says so by the machine: Red Hat for all of its own, Ubuntu for
// those with the suffix -hpb. What machine "q35" stands for is QEMU's to say.
func (in Inputs) guestBits() (int, string) {
	a, machine := in.Domain.Addressing, in.Domain.Machine
	switch {
	case in.Domain.Arch == "aarch64":
		return 0, ""
	case a.PhysBits > 0:
		return a.PhysBits, "maxphysaddr"
	case a.HostBits && a.LimitBits > 0:
		return min(in.HostPhysBits, a.LimitBits), hostsBits
	case a.HostBits, a.CPUMode == "host-passthrough", a.CPUMode == "host-model", a.CPUMode == "maximum",
		strings.Contains(machine, "rhel"), strings.HasSuffix(machine, "-hpb"):
		return in.HostPhysBits, hostsBits
	case machine == "q35":
		return 0, ""
	}
	return defaultPhysBits, "the CPU model"
}

// ioSpace asks whether SeaBIOS has room for all ports with an I/O BAR below:
// with one too many it stops, and so does the guest.
func ioSpace(in Inputs) []finding {
	if !in.hasDevices() || in.Domain.Arch == "aarch64" {
		return nil
	}
	if in.Domain.UEFI {
		return pass("the domain boots with UEFI, which leaves an I/O BAR without room unassigned")
	}
	for _, w := range in.Plan.Warnings {
		if w.Code == reasons.CodeIOSpace {
			return fail(w.Remedy, "%s", w.Text)
		}
	}
	devices := 0
	for _, d := range in.Plan.Devices {
		f := in.Host.Function(d.ID)
		if d.ID.Kind() == topology.KindPCI && f != nil && slices.ContainsFunc(f.BARs, func(b topology.BAR) bool { return b.IO }) {
			devices++
		}
	}
	return pass("%s with an I/O BAR, SeaBIOS has room for 14 ports with such", topology.Counted(devices, "device"))
}

// pciHole asks whether the window of the main bus is there for the devices with
// 64-bit BARs that stay on it: pcihole64 sizes that of the main bus alone.
func pciHole(in Inputs) []finding {
	if !in.hasDevices() {
		return nil
	}
	if !in.Domain.PCIHole64Off {
		return pass("not switched off")
	}
	const hint = "remove the annotation kubevirt.io/disablePCIHole64 from the VMI"
	var there []topology.DeviceID
	for _, d := range in.Plan.Devices {
		f := in.Host.Function(d.ID)
		large := f != nil && slices.ContainsFunc(f.BARs, func(b topology.BAR) bool { return b.Is64 && !b.IO })
		if d.ID.Kind() == topology.KindPCI && large && in.onMainBus(d) {
			there = append(there, d.ID)
		}
	}
	if len(there) > 0 {
		return warn(hint, "pcihole64 is 0, and on the main bus stands what has 64-bit BARs: %s", list(there))
	}
	return note(hint, "pcihole64 is 0; the devices stand below expander buses, whose windows it does not size")
}
