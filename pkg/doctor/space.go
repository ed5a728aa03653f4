package doctor

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// barWindow checks whether the 64-bit BARs of the devices fit into the window of
// the guest's firmware.
func barWindow(in Inputs) []Result {
	sum, taken := in.barBytes()
	if sum == 0 {
		return nil
	}
	window, reason, known := in.window(taken)
	if !known {
		return note(fmt.Sprintf("a host-passthrough CPU has the host's bits; OVMF's window is an eighth of the address space, so %d bits are enough", bits.Len64(taken.bytes)+windowShift),
			"64-bit BARs of %s; the guest's physical address bits are not known", topology.BytesNeeded(sum))
	}
	need := "64-bit BARs of " + topology.BytesNeeded(sum)
	if all := taken.bytes + in.hotplugBytes(window); all > window {
		if all > sum {
			need += " take " + topology.BytesNeeded(all) + " with alignment and hotplug ports"
		}
		return fail(in.windowHint(), "%s, the window has %s: %s", need, topology.BytesThere(window), reason)
	}
	return pass("%s, the window has %s: %s", need, topology.BytesThere(window), reason)
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

// aperture is the address space that a part of the guest takes: so many bytes,
// from a multiple of align on.
type aperture struct{ bytes, align uint64 }

// roundUp is the least multiple of a power of two that is not less than n.
func roundUp(n, power uint64) uint64 { return (n + power - 1) &^ (power - 1) }

// pack is what parts take one after the other, as both firmwares order them: the
// largest alignment first.
func pack(parts []aperture) aperture {
	all := aperture{align: 1}
	for _, part := range slices.SortedFunc(slices.Values(parts), func(a, b aperture) int { return cmp.Compare(b.align, a.align) }) {
		all.bytes = roundUp(all.bytes, part.align) + part.bytes
		all.align = max(all.align, part.align)
	}
	return all
}

// barBytes is the sum of the 64-bit BARs of the PCI devices, and what they take
// in the guest's tree: a bridge's window begins at a multiple of the largest BAR
// under it, so the space after that BAR is lost to the next bridge. By this 8
// GPUs with BARs of 512 GiB and less take 8 TiB (edk2 pull request 12997).
func (in Inputs) barBytes() (sum uint64, taken aperture) {
	own := map[topology.ID][]aperture{}
	var parts []aperture
	for _, f := range in.guestFunctions() {
		id := topology.PCIDevice(f.Address)
		for _, bar := range f.LargeBARs() {
			sum += bar.Bytes
			own[id] = append(own[id], aperture{bar.Bytes, bar.Bytes})
		}
		if in.Plan.GuestTree.Node(id) == nil {
			parts = append(parts, own[id]...)
		}
	}
	for _, root := range in.Plan.GuestTree.Roots {
		parts = append(parts, in.under(root, own)...)
	}
	return sum, pack(parts)
}

// under is what the devices at and under a node take. SeaBIOS makes the window of
// a bridge a multiple of its alignment, too (src/fw/pciinit.c,
// pci_bios_check_devices).
func (in Inputs) under(n *topology.Node, own map[topology.ID][]aperture) []aperture {
	parts := slices.Clone(own[n.ID])
	for _, child := range n.Children {
		parts = append(parts, in.under(child, own)...)
	}
	if n.Kind == topology.Root || n.Kind == topology.Endpoint || len(parts) == 0 {
		return parts
	}
	all := pack(parts)
	if !in.Plan.Domain().UEFI {
		all.bytes = roundUp(all.bytes, all.align)
	}
	return []aperture{all}
}

// hotplugBytes is what ports that can hotplug take of OVMF's window beside the
// devices: of one larger than the default a 256th each, rounded up to a power of
// two (edk2 OvmfPkg/PciHotPlugInitDxe/PciHotPlugInit.c, GetResourcePadding).
// SeaBIOS reserves from what is left.
func (in Inputs) hotplugBytes(window uint64) (bytes uint64) {
	d := in.Plan.Domain()
	if !d.UEFI || window <= ovmfLeast {
		return 0
	}
	for _, c := range d.Controllers {
		if !c.HotplugOff && (c.Model == domain.RootPort || c.Model == domain.DownstreamPort) {
			bytes += 1 << bits.Len64(window/256-1)
		}
	}
	return bytes
}

// What QEMU's CPUs and machines have, and what the firmwares make of it.
const (
	// defaultPhysBits are those of a CPU model without more (QEMU
	// target/i386/cpu.c, TCG_PHYS_ADDR_BITS).
	defaultPhysBits = 40
	// seaBIOSBits is the most that SeaBIOS uses in a guest with less than 1 TiB of
	// memory (src/fw/pciinit.c, pci_setup).
	seaBIOSBits = 44
	// ovmfBits is the most that OVMF uses (edk2
	// OvmfPkg/Library/PlatformInitLib/MemDetect.c, as the next two).
	ovmfBits = 46
	// windowShift: OVMF's window is an eighth of the space.
	windowShift = 3
	// ovmfLeast is OVMF's window where it does not use the address bits, unless
	// X-PciMmio64Mb names another, and ovmfMost is the most that OVMF takes by that
	// name: it ignores more.
	ovmfLeast, ovmfMost = 32 << 30, 16 << 40
	// q35 has 2 GiB of memory below 4 GiB, or up to 2.75 GiB and none above (QEMU
	// hw/i386/pc_q35.c, pc_q35_init).
	lowMemory, allLow = 2 << 30, 0xb0000000
)

// window returns how many bytes the firmware has for 64-bit BARs, and why; false
// when neither the guest's address bits nor the domain say it.
func (in Inputs) window(taken aperture) (bytes uint64, reason string, known bool) {
	guest, source := in.guestBits()
	d := in.Plan.Domain()
	memory := uint64(4 << 30)
	if d.MemoryBytes >= allLow {
		memory += d.MemoryBytes - lowMemory
	}
	switch set := d.WindowBytes(); {
	case d.UEFI && guest == 0 && set > 0 && set <= ovmfMost:
		return set, "OVMF, X-PciMmio64Mb", true
	case guest == 0:
		return 0, "", false
	case d.UEFI:
		bytes, reason = in.ovmfWindow(guest, source, memory)
		return bytes, reason, true
	}
	// Whatever the version, BARs begin above the memory; up to 1.16.2 SeaBIOS puts
	// them there, since 1.16.3 at the end of the address space.
	used := guest
	if memory < 1<<40 {
		used = min(guest, seaBIOSBits)
	}
	space := uint64(1) << used
	return space - min(space, roundUp(memory, taken.align)), fmt.Sprintf("SeaBIOS, %d bits of %s less the guest's memory", used, source), true
}

// ovmfWindow is the window of OVMF in a guest with address bits and memory up to
// some address. It is at the end of the address space; where OVMF does not trust
// the bits, or the memory leaves no eighth of the space, it is after the memory.
func (in Inputs) ovmfWindow(guest int, source string, memory uint64) (bytes uint64, reason string) {
	least, name := uint64(ovmfLeast), "its default"
	if set := in.Plan.Domain().WindowBytes(); set > 0 && set <= ovmfMost {
		least, name = set, "X-PciMmio64Mb"
	}
	used := min(guest, ovmfBits)
	space := uint64(1) << used
	eighth := space >> windowShift
	base := roundUp(memory, 1<<(bits.Len64(least)-1))
	switch {
	case !in.ovmfTrusts(guest):
		return least, fmt.Sprintf("OVMF, %s, since it does not trust %d bits of an Intel CPU", name, guest)
	case least < eighth && base+eighth < space:
		return eighth, fmt.Sprintf("OVMF, an eighth of %d bits of %s", used, source)
	case base+least > space:
		return 0, fmt.Sprintf("OVMF, %s, which is beyond %d bits of %s", name, used, source)
	}
	return least, "OVMF, " + name
}

// ovmfTrusts reports whether OVMF takes a CPU's address bits for true: up to 40
// could be QEMU's own default. A guest's CPU has the vendor of the host's (QEMU
// target/i386/cpu.c, x86_cpu_load_model), and so has the host bridge.
func (in Inputs) ovmfTrusts(guest int) bool {
	const intel, hostBridge = 0x8086, 0x0600
	return guest != defaultPhysBits || !slices.ContainsFunc(in.Host.Devices, func(d topology.Device) bool {
		return d.Class>>8 == hostBridge && d.Vendor == intel
	})
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

// ovmfIOPorts is how many ports with an I/O BAR under them have room in OVMF's
// I/O window, 0x6000 to 0xffff (edk2 OvmfPkg/Library/PlatformInitLib/Platform.c):
// 4 KiB each, and the root bus's own devices have the first. Each device beyond
// loses all of its BARs.
const ovmfIOPorts = 9

// ioSpace checks whether the firmware has room for all ports with an I/O BAR
// under them: with one too many SeaBIOS stops, and so does the guest.
func ioSpace(in Inputs) []Result {
	d := in.Plan.Domain()
	if d.Arch == "aarch64" {
		return nil
	}
	withIO := slices.DeleteFunc(in.guestFunctions(), func(f *topology.Device) bool { return !f.HasIO() })
	firmware, room := "SeaBIOS", placement.MaxIOPorts
	if d.UEFI {
		firmware, room = "UEFI", ovmfIOPorts
	}
	if ports := in.portsOf(withIO); d.UEFI && ports > room {
		hint := "pass fewer of them through"
		if ports <= placement.MaxIOPorts {
			hint = fmt.Sprintf("boot with SeaBIOS, which has room for %d", placement.MaxIOPorts)
		}
		return fail(hint, "%d ports have a device with an I/O BAR under them and the domain boots with UEFI, which has room for %d", ports, room)
	}
	return orPass(in.warnings(Fail, reasons.CodeIOSpace), "%s with an I/O BAR, %s has room for %d ports with one",
		topology.Counted(len(withIO), "device"), firmware, room)
}

// portsOf counts the ports of the guest that have these functions under them. A
// function without an address will have a port of its own.
func (in Inputs) portsOf(functions []*topology.Device) int {
	ports := map[topology.ID]bool{}
	for _, f := range functions {
		id := topology.PCIDevice(f.Address)
		switch n := in.Plan.GuestTree.Node(id); {
		case n == nil || n.Parent == nil:
			ports[id] = true
		case n.Parent.Kind != topology.Root:
			ports[n.Parent.ID] = true
		}
	}
	return len(ports)
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
