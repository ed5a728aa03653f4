// Package firmware models how much address space a guest's firmware, SeaBIOS or OVMF, has
// for the 64-bit BARs of its devices, and how much they take.
package firmware

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Input is the input of the model.
type Input struct {
	Domain    *domain.Domain
	Tree      *topology.Tree
	Functions []*topology.Function // of the host, that are passed through

	HostPhysBits int // physical address bits of the host's CPUs, 0 when not known
	// IntelHost is false where the host's CPUs are known to be of another vendor.
	IntelHost bool
	// PendingPorts are hotpluggable ports that are not in the domain yet.
	PendingPorts int
}

// Aperture is the address space of a part of the guest: bytes from a multiple of Align on.
type Aperture struct{ Bytes, Align uint64 }

// roundUp returns the least multiple of a power of two that is not less than n.
func roundUp(n, power uint64) uint64 { return (n + power - 1) &^ (power - 1) }

// pack puts parts one after the other as both firmwares do, the largest alignment first.
func pack(parts []Aperture) Aperture {
	all := Aperture{Align: 1}
	for _, part := range slices.SortedFunc(slices.Values(parts), func(a, b Aperture) int {
		return cmp.Compare(b.Align, a.Align)
	}) {
		all.Bytes = roundUp(all.Bytes, part.Align) + part.Bytes
		all.Align = max(all.Align, part.Align)
	}

	return all
}

// Taken is the space of the 64-bit BARs of the PCI devices in a window. OVMF gives the root bus its
// part first and then each expander bus (edk2
// MdeModulePkg/Bus/Pci/PciHostBridgeDxe/PciHostBridge.c, NotifyPhase), so that the space up to the
// alignment of the first large BAR is lost. For SeaBIOS all is in RootBus.
type Taken struct{ RootBus, Expanders Aperture }

// BARs returns the sum of the 64-bit BARs of the PCI devices, and the space that they take in the
// guest's tree: a bridge's window begins at a multiple of the largest BAR under it, so that the
// space after it is lost to the next one. 8 GPUs with BARs of 512 GiB take 8 TiB (edk2 pull request
// 12997).
func (g Input) BARs() (sum uint64, taken Taken) {
	own := map[topology.ID][]Aperture{}
	var root, expanders []Aperture
	for _, f := range g.Functions {
		id := topology.PCIDevice(f.Address)
		for _, bar := range f.LargeBARs() {
			sum += bar.Bytes
			own[id] = append(own[id], Aperture{bar.Bytes, bar.Bytes})
		}

		// A device that the tree lacks counts as on the root bus.
		if g.Tree.Node(id) == nil {
			root = append(root, own[id]...)
		}
	}

	if reserve, isSet := g.Reserve(); isSet && !g.Domain.UEFI && reserve > 0 {
		for range g.portsElsewhere() {
			root = append(root, Aperture{roundUp(reserve, leastBridgeSeaBIOS), leastBridgeSeaBIOS})
		}
	}

	// OVMF gives each expander bus an aperture of its own. SeaBIOS packs all into one.
	for i, n := range g.Tree.Roots {
		switch parts := g.under(n, own); {
		case i == 0 || !g.Domain.UEFI:
			root = append(root, parts...)
		case len(parts) > 0:
			expanders = append(expanders, pack(parts))
		}
	}

	return sum, Taken{pack(root), pack(expanders)}
}

// Required returns the bytes taken of a window, with hotplug ports, and with the small BARs of
// virtio devices on the root bus (QEMU hw/virtio/virtio-pci.c, VIRTIO_PCI_FLAG_MODERN).
func (g Input) Required(taken Taken, window uint64) uint64 {
	root := taken.RootBus.Bytes + g.hotplugBytes(window)
	if root == 0 && slices.ContainsFunc(libvirt.Endpoints(g.Domain), isVirtio) {
		root = 1
	}
	return roundUp(root, taken.Expanders.Align) + taken.Expanders.Bytes
}

// isVirtio reports whether a device is virtio's, as the memory balloon is that libvirt adds.
func isVirtio(d libvirt.Endpoint) bool {
	isAdded := d.Implicit && d.Element == "memballoon"
	return isAdded || d.Bus == "virtio" || strings.HasPrefix(d.Model, "virtio")
}

// under returns the space of the devices at and under a node. SeaBIOS makes a bridge's window a
// multiple of its alignment, too (src/fw/pciinit.c, pci_bios_check_devices).
func (g Input) under(n *topology.Node, own map[topology.ID][]Aperture) []Aperture {
	parts := slices.Clone(own[n.ID])
	for _, child := range n.Children {
		parts = append(parts, g.under(child, own)...)
	}

	reserve, _ := g.Reserve()
	if n.Kind != topology.RootPort || g.Domain.UEFI {
		reserve = 0
	}

	if n.Kind == topology.Root || n.Kind == topology.Endpoint || len(parts) == 0 && reserve == 0 {
		return parts
	}

	// From here on n is a bridge with a window.
	all := pack(parts)
	if reserve > 0 {
		all.Align = max(all.Align, leastBridgeSeaBIOS)
		all.Bytes = max(all.Bytes, reserve)
	}

	if !g.Domain.UEFI {
		all.Bytes = roundUp(all.Bytes, all.Align)
	}

	return []Aperture{all}
}

// Reserve returns the bytes that the user has the firmware reserve in the 64-bit window of each root
// port; false where nothing is set, or all bits of it are (QEMU docs/pcie.txt, pref64-reserve). SeaBIOS
// gives a port them or the BARs under it, whichever is more (src/fw/pciinit.c,
// pci_bios_check_devices).
func (g Input) Reserve() (bytes uint64, isSet bool) {
	bytes, isSet = g.Domain.GlobalBytes("pcie-root-port", "pref64-reserve")
	return min(bytes, 1<<ovmfBits), isSet && bytes < math.MaxUint64
}

// portsElsewhere counts the root ports that are not in the tree.
func (g Input) portsElsewhere() int {
	count := g.PendingPorts + topology.CountFunc(g.Domain.Controllers, isRootPort)
	for _, root := range g.Tree.Roots {
		for n := range root.Walk() {
			if n.Kind == topology.RootPort {
				count--
			}
		}
	}

	return max(0, count)
}

func isRootPort(c domain.Controller) bool { return c.Model == domain.RootPort }

// hotplugBytes returns the space of hotpluggable ports in OVMF's window: of one larger than the
// default a 256th each, rounded up to a power of two (edk2
// OvmfPkg/PciHotPlugInitDxe/PciHotPlugInit.c, GetResourcePadding). Root ports for which the user
// reserves bytes have these, rounded up alike, whatever the window. SeaBIOS takes free space only.
func (g Input) hotplugBytes(window uint64) uint64 {
	if !g.Domain.UEFI {
		return 0
	}

	padding := uint64(0)
	if window > LeastWindow {
		padding = powerOfTwo(window / 256)
	}

	// The user's number is for root ports (pcie-root-port), and takes the place of the default
	// there.
	perRootPort := padding
	if reserve, isSet := g.Reserve(); isSet {
		perRootPort = powerOfTwo(reserve)
	}

	sum := uint64(g.PendingPorts) * perRootPort
	for _, c := range g.Domain.Controllers {
		switch {
		case c.HotplugOff:
		case isRootPort(c):
			sum += perRootPort
		case c.Model == domain.DownstreamPort:
			sum += padding
		}
	}

	return sum
}

// powerOfTwo returns the least power of two that is not less than n, 0 for none.
func powerOfTwo(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len64(n-1)
}

// Limits of QEMU and of the firmwares.
const (
	// defaultPhysBits are a CPU model's own (QEMU target/i386/cpu.c, TCG_PHYS_ADDR_BITS).
	defaultPhysBits = 40
	// seaBIOSBits is SeaBIOS's most with less than 1 TiB of memory (src/fw/pciinit.c, pci_setup).
	seaBIOSBits = 44
	// ovmfBits is OVMF's most (edk2 OvmfPkg/Library/PlatformInitLib/MemDetect.c, as the next two).
	ovmfBits = 46
	// WindowShift: OVMF's window is an eighth of the space.
	WindowShift = 3
	// LeastWindow is OVMF's window without address bits, unless X-PciMmio64Mb names another, and
	// MostWindow the largest that may be named: OVMF ignores more.
	LeastWindow, MostWindow = 32 << 30, 16 << 40
	// virtWindow is the window of QEMU's machine virt for aarch64 (hw/arm/virt.c,
	// VIRT_HIGH_PCIE_MMIO).
	virtWindow = 512 << 30
	// q35 has 2 GiB of memory below 4 GiB, or up to 2.75 GiB and none above (QEMU
	// hw/i386/pc_q35.c, pc_q35_init).
	lowMemory, allLow = 2 << 30, 0xb0000000
)

// Window is a firmware's window for 64-bit BARs.
type Window struct {
	Bytes  uint64
	Reason string // for the size
}

// Window returns the window for 64-bit BARs; false when it is unknown.
func (g Input) Window(taken Taken) (w Window, known bool) {
	guest, source := g.Bits()
	d := g.Domain
	switch set := d.WindowBytes(); {
	case d.Arch == "aarch64" && d.PCIHole64 != nil && *d.PCIHole64 > 0:
		// libvirt 12.8: highmem-mmio-size
		return Window{*d.PCIHole64, "pcihole64"}, true

	case d.Arch == "aarch64":
		return Window{virtWindow, "QEMU's machine virt"}, true
	case d.UEFI && guest == 0 && set > 0 && set <= MostWindow:
		return Window{set, "OVMF, X-PciMmio64Mb"}, true
	case guest == 0:
		return Window{}, false
	case d.UEFI:
		return g.ovmfWindow(guest, source), true
	}

	// Up to 1.16.2 SeaBIOS puts BARs right above the memory, since 1.16.3 at the end of the
	// address space.
	used := guest
	if g.memoryEnd() < 1<<40 {
		used = min(guest, seaBIOSBits)
	}

	space := uint64(1) << used
	return Window{
		space - min(space, roundUp(g.memoryEnd(), taken.RootBus.Align)),
		fmt.Sprintf("SeaBIOS, %d bits of %s less the guest's memory", used, source),
	}, true
}

// memoryEnd returns the address after the guest's memory, 4 GiB at least, and after the region for
// hotplugged memory, which begins at a multiple of 1 GiB and has 1 GiB more per slot for alignment
// (QEMU hw/i386/pc.c, pc_memory_init). Both firmwares read it from etc/reserved-memory-end.
func (g Input) memoryEnd() uint64 {
	const align = 1 << 30
	end, d := uint64(4<<30), g.Domain
	if d.MemoryBytes >= allLow {
		end += d.MemoryBytes - lowMemory
	}

	if d.MaxMemoryBytes <= d.MemoryBytes {
		return end
	}

	most := uint64(1) << ovmfBits // more than a machine has
	return roundUp(end, align) + min(d.MaxMemoryBytes-d.MemoryBytes, most) + min(d.MemorySlots,
		most/align)*align
}

// Fit says whether the 64-bit BARs of a guest fit into its firmware's window.
type Fit struct {
	Sum      uint64 // of the BARs, in bytes; 0 without any
	Taken    Taken
	Window   Window
	Known    bool   // the window is
	Required uint64 // of the window, with alignment and hotplug ports
}

// Fit looks at the window that the guest has.
func (g Input) Fit() Fit {
	var f Fit
	f.Sum, f.Taken = g.BARs()
	f.Window, f.Known = g.Window(f.Taken)
	f.Required = g.Required(f.Taken, f.Window.Bytes)
	return f
}

// IsEnough reports whether the window is known and holds the BARs.
func (f Fit) IsEnough() bool { return f.Known && f.Required <= f.Window.Bytes }

// Need says how large the BARs are, and how much of a window they take where that is more.
func (f Fit) Need(required uint64) string {
	need := "64-bit BARs of " + words.BytesNeeded(f.Sum)
	if required > f.Sum {
		need += " take " + words.BytesNeeded(required) + " with alignment and hotplug ports"
	}
	return need
}

// Have returns what the BARs need, with the window that they have.
func (f Fit) Have(need string) string {
	return fmt.Sprintf("%s, the window has %s: %s", need, words.BytesThere(f.Window.Bytes),
		f.Window.Reason)
}

// SmallestWindow returns the smallest window of OVMF, a power of two, that holds the taken space;
// 0 where OVMF has none so large.
func (g Input) SmallestWindow(taken Taken) uint64 {
	for window := uint64(LeastWindow); window <= MostWindow; window *= 2 {
		if g.Required(taken, window) <= window {
			return window
		}
	}
	return 0
}

// HasRoom reports whether OVMF has room for a window, a power of two, in an address space of these
// bits: after the memory, at a multiple of its size.
func (g Input) HasRoom(window uint64, bits int) bool {
	const space = 1 << ovmfBits
	return g.memoryEnd() < space &&
		roundUp(g.memoryEnd(), window)+window <= space>>max(0, ovmfBits-bits)
}

// ovmfWindow returns the window of OVMF in a guest with address bits. It is at the end of the
// address space; where OVMF does not trust the bits, which could be QEMU's default, or the memory
// leaves no eighth of the space, it is after the memory.
func (g Input) ovmfWindow(guest int, source string) Window {
	least, name := uint64(LeastWindow), "its default"
	if set := g.Domain.WindowBytes(); set > 0 && set <= MostWindow {
		least, name = set, "X-PciMmio64Mb"
	}

	used := min(guest, ovmfBits)
	space := uint64(1) << used
	eighth := space >> WindowShift

	// OVMF aligns the window to its size, or to the next lower power of two.
	base := roundUp(g.memoryEnd(), 1<<(bits.Len64(least)-1))
	switch {
	case guest == defaultPhysBits && g.IntelHost:
		// a guest's CPU has the host's vendor (QEMU target/i386/cpu.c, x86_cpu_load_model)
		return Window{
			least,
			fmt.Sprintf("OVMF, %s, since it does not trust %d bits of an Intel CPU", name, guest),
		}

	case least < eighth && base+eighth < space:
		return Window{eighth, fmt.Sprintf("OVMF, an eighth of %d bits of %s", used, source)}
	case base+least > space:
		return Window{0, fmt.Sprintf("OVMF, %s, which is beyond %d bits of %s", name, used, source)}
	}

	return Window{least, "OVMF, " + name}
}

// HostBits is the source of the host's address bits.
const HostBits = "the host"

// Bits returns the physical address bits of the guest's CPU, 0 when unknown, and their source. A
// host-passthrough CPU has the host's (QEMU target/i386/host-cpu.c), a host-model CPU too, by the
// maxphysaddr of libvirt's domain capabilities. A named model has them where QEMU's vendor has set
// them by the machine: Red Hat for all of its own, Ubuntu for those with the suffix -hpb. QEMU
// decides which machine "q35" is.
func (g Input) Bits() (bits int, source string) {
	d := g.Domain
	a := d.Addressing
	switch {
	case d.Arch == "aarch64":
		return 0, ""
	case a.PhysBits > 0:
		return a.PhysBits, "maxphysaddr"
	case a.HostBits && a.LimitBits > 0:
		return min(g.HostPhysBits, a.LimitBits), HostBits
	case a.HostBits, a.CPUMode == "host-passthrough", a.CPUMode == "host-model",
		a.CPUMode == "maximum",
		strings.Contains(d.Machine, "rhel"), strings.HasSuffix(d.Machine, "-hpb"):
		return g.HostPhysBits, HostBits

	case d.Machine == "q35":
		return 0, ""
	}

	return defaultPhysBits, modelBits
}

const modelBits = "the CPU model"

// SureBits returns Bits, but the same in all calls of a boot: libvirt replaces "q35" by a version
// of it, and only then it is known whether the machine is Red Hat's. So with a CPU model's name it
// counts QEMU's own bits, or the host's where these are fewer.
func (g Input) SureBits() (bits int, source string) {
	bits, source = g.Bits()
	d := g.Domain
	isNamed := !d.Addressing.HostBits &&
		!slices.Contains([]string{
			"host-passthrough", "host-model", "maximum",
		}, d.Addressing.CPUMode)

	// Bits that do not hang on what q35 stands for are the same in each call.
	switch {
	case d.Machine != "q35" && !strings.Contains(d.Machine, "rhel") || !isNamed ||
		d.Addressing.PhysBits > 0:
		return bits, source
	case g.HostPhysBits > 0 && g.HostPhysBits < defaultPhysBits:
		return g.HostPhysBits, HostBits
	}

	return defaultPhysBits, modelBits
}
