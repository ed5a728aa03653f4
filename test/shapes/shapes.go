// Package shapes makes random domains of machines with PCI Express. Half of them have shapes that
// KubeVirt does not write: devices on conventional PCI, a user's bridges and expander buses,
// missing indexes, controllers without an index, drives without a controller.
package shapes

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Domain is a random domain.
type Domain struct {
	XML      []byte
	Hostdevs []string // the host addresses of its PCI hostdevs, as 0000:17:00.0
}

// Random returns the domain of a seed. Every device of its own has an alias.
func Random(seed uint64) Domain {
	b := &builder{Rand: rand.New(rand.NewPCG(seed, 37)), taken: map[string]bool{}}
	b.isKubeVirts = b.IntN(2) == 0
	b.machine = "q35"
	arch := "x86_64"
	if b.one(8) {
		b.machine, arch = "virt", "aarch64"
	}

	b.ports()
	b.devices()
	b.Shuffle(len(b.elements), func(i, j int) {
		b.elements[i], b.elements[j] = b.elements[j], b.elements[i]
	})

	var xml strings.Builder
	fmt.Fprintf(&xml,
		"<domain type='qemu'>\n<name>shape-%d</name>\n<memory unit='GiB'>4</memory>\n", seed)
	if b.hasDIMM {
		xml.WriteString("<maxMemory slots='16' unit='GiB'>64</maxMemory>\n")
	}

	fmt.Fprintf(&xml, "<vcpu>4</vcpu>\n<os><type arch='%s' machine='%s'>hvm</type></os>\n", arch,
		b.machine)
	if b.machine == "q35" { // virt has ACPI with UEFI only
		xml.WriteString("<features><acpi/></features>\n")
	}

	xml.WriteString("<numatune><memory mode='strict' nodeset='0-1'/>" +
		"<memnode cellid='0' mode='strict' nodeset='0'/><memnode cellid='1' mode='strict' nodeset='1'/></numatune>\n")
	xml.WriteString("<cpu mode='custom' match='exact'><model>" + map[string]string{
		"x86_64": "qemu64", "aarch64": "cortex-a57",
	}[arch] + "</model>" +
		"<numa><cell id='0' cpus='0-1' memory='2' unit='GiB'/><cell id='1' cpus='2-3' memory='2' unit='GiB'/></numa></cpu>\n")

	xml.WriteString("<devices>\n" + strings.Join(b.elements, "\n") + "\n</devices>\n</domain>\n")
	return Domain{[]byte(xml.String()), b.hostdevs}
}

// builder makes the elements of a domain.
type builder struct {
	*rand.Rand
	isKubeVirts bool
	hasDIMM     bool
	hasNoIndex  bool // a PCI controller
	machine     string
	elements    []string
	hostdevs    []string
	buses       []int           // that take a device with an address
	taken       map[string]bool // addresses
	next        int             // number of an alias
	index       int             // highest of a PCI controller
}

// one returns true once in n times.
func (b *builder) one(n int) bool { return b.IntN(n) == 0 }

func pick[T any](b *builder, list ...T) T { return list[b.IntN(len(list))] }

func (b *builder) add(format string, args ...any) {
	b.elements = append(b.elements, fmt.Sprintf(format, args...))
}

// alias returns a new alias's element.
func (b *builder) alias() string {
	b.next++
	return fmt.Sprintf("<alias name='ua-%d'/>", b.next)
}

// address returns an address on the root bus or another for one of n devices, else what leaves the
// address to libvirt.
func (b *builder) address(n int) string {
	if !b.one(n) {
		return b.open()
	}

	if len(b.buses) > 0 && b.one(2) {
		i := b.IntN(len(b.buses))
		bus := b.buses[i]
		b.buses = append(b.buses[:i], b.buses[i+1:]...)
		return fmt.Sprintf("<address type='pci' domain='0' bus='%d' slot='0' function='0'/>", bus)
	}

	return b.onRootBus()
}

// open returns what leaves an address to libvirt: nothing, or where KubeVirt does not write it a
// type without numbers. For a USB 2 controller libvirt then takes no slot of the chipset.
func (b *builder) open() string {
	if b.isKubeVirts || !b.one(8) {
		return ""
	}
	return "<address type='pci'/>"
}

// onRootBus returns a free address of the root bus.
func (b *builder) onRootBus() string {
	for {
		slot := 1 + b.IntN(0x1e)
		key := fmt.Sprint(slot)
		if b.taken[key] {
			continue
		}

		b.taken[key] = true
		return fmt.Sprintf("<address type='pci' domain='0' bus='0' slot='%d' function='0'/>", slot)
	}
}

// ports adds PCI controllers.
func (b *builder) ports() {
	if b.one(5) {
		return // libvirt makes all, and one more
	}

	hasRoot := b.one(2)
	count := b.IntN(20)
	if b.one(10) {
		count = 20 + b.IntN(60)
	}

	for range count {
		b.index++
		if !b.isKubeVirts && b.one(12) {
			b.index += b.IntN(4) // missing indexes
		}

		address := ""
		if b.one(4) {
			address = b.onRootBusOnce()
		}

		b.port(address)
	}

	if !b.isKubeVirts {
		b.others()
	}

	// Without the root bus a controller without an index would get its index.
	if hasRoot || b.hasNoIndex {
		b.add("<controller type='pci' index='0' model='pcie-root'/>")
	}
}

// others adds PCI controllers that KubeVirt does not write.
func (b *builder) others() {
	for range b.IntN(3) {
		b.expander()
	}

	if b.one(3) {
		b.index++
		b.add("<controller type='pci' index='%d' model='%s'>%s</controller>", b.index,
			pick(b, "pcie-to-pci-bridge", "pcie-to-pci-bridge", "dmi-to-pci-bridge"), b.open())
	}

	if b.one(8) {
		b.switches()
	}

	if b.one(8) {
		b.hasNoIndex = true
		b.add("<controller type='pci' model='pcie-root-port'/>")
	}
}

func (b *builder) port(address string) {
	if !b.isKubeVirts && b.one(15) {
		b.hasNoIndex = true
		b.add("<controller type='pci' model='pcie-root-port'>%s</controller>", address)
		return
	}

	hotplug := ""
	if b.one(6) {
		hotplug = "<target hotplug='off'/>"
	}

	b.add("<controller type='pci' index='%d' model='pcie-root-port'>%s%s</controller>", b.index,
		hotplug, address)
	b.buses = append(b.buses, b.index)
}

// onRootBusOnce returns what onRootBus does as long as it has room for others.
func (b *builder) onRootBusOnce() string {
	if len(b.taken) > 12 {
		return ""
	}
	return b.onRootBus()
}

// expander adds an expander bus with ports, some of which may be free.
func (b *builder) expander() {
	b.index++
	expander := b.index
	address := ""
	if b.one(2) {
		address = b.onRootBusOnce()
	}

	target := "<target/>"
	if b.one(2) {
		target = fmt.Sprintf("<target busNr='%d'><node>%d</node></target>", 250-20*expander%200,
			b.IntN(2))
	}

	b.add("<controller type='pci' index='%d' model='pcie-expander-bus'>%s%s</controller>", expander,
		target, address)

	for slot := range b.IntN(4) {
		b.index++
		b.port(fmt.Sprintf("<address type='pci' domain='0' bus='%d' slot='%d' function='0'/>",
			expander, slot))
	}
}

// switches adds a switch, whose ports have addresses or not.
func (b *builder) switches() {
	b.index++
	b.add("<controller type='pci' index='%d' model='pcie-switch-upstream-port'/>", b.index)
	for range 1 + b.IntN(3) {
		b.index++
		b.add("<controller type='pci' index='%d' model='pcie-switch-downstream-port'/>", b.index)
		b.buses = append(b.buses, b.index)
	}
}

// devices adds the devices.
func (b *builder) devices() {
	for i := range b.IntN(6) {
		b.add("<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/d%d'/><target dev='vd%c' bus='virtio'/>%s%s</disk>",
			i, 'a'+i, b.alias(), b.address(4))
	}

	for range b.IntN(5) {
		b.add("<interface type='ethernet'><model type='%s'/>%s%s</interface>", b.network(),
			b.alias(), b.address(4))
	}

	for range b.IntN(5) {
		b.hostdev()
	}

	b.controllers()
	if b.one(3) {
		b.add("<memballoon model='%s'>%s</memballoon>", pick(b, "none", "virtio"), "")
	}

	for range b.IntN(2) {
		b.add("<rng model='virtio'><backend model='random'>/dev/urandom</backend>%s%s</rng>",
			b.alias(), b.address(4))
	}

	for range b.IntN(2) {
		b.add("<filesystem type='mount'><source dir='/tmp'/><target dir='t%d'/>%s%s</filesystem>",
			b.next, b.alias(), b.address(5))
	}

	if b.one(4) {
		b.add("<vsock model='virtio'><cid auto='yes'/>%s</vsock>", b.alias())
	}

	if b.one(4) {
		b.add("<input type='tablet' bus='virtio'>%s</input>", b.alias())
	}

	if b.one(4) {
		b.add("<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>")
	}

	b.videos()
	if b.isKubeVirts {
		return
	}

	b.conventional()
}

func (b *builder) network() string {
	if b.isKubeVirts || b.one(2) {
		return pick(b, "virtio", "virtio", "virtio", "e1000e", "virtio-non-transitional")
	}
	return pick(b, "rtl8139", "e1000", "virtio-transitional", "e1000e")
}

func (b *builder) hostdev() {
	if b.one(5) {
		b.add("<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='4a1f0b5c-6c3e-4f5a-9d0e-%012d'/></source>%s%s</hostdev>",
			b.next, b.alias(), b.address(3))
		return
	}

	bus := 0x40 + len(b.hostdevs)
	b.hostdevs = append(b.hostdevs, fmt.Sprintf("0000:%02x:00.0", bus))
	b.add("<hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0' bus='%d' slot='0' function='0'/></source>%s%s</hostdev>",
		bus, b.alias(), b.address(3))
}

// controllers adds controllers other than for PCI, and drives that need some.
func (b *builder) controllers() {
	if b.one(2) {
		b.add("<controller type='usb' index='0' model='%s'/>",
			pick(b, "none", "qemu-xhci", "nec-xhci"))
	}

	if b.one(2) {
		b.add("<controller type='scsi' index='0' model='virtio-scsi'/>")
	}

	if b.one(3) {
		b.add("<controller type='virtio-serial' index='%d'/>", b.IntN(2))
	}

	if b.isKubeVirts {
		return
	}

	if b.one(6) {
		b.add("<controller type='scsi' index='%d' model='%s'/>", 1+b.IntN(2),
			pick(b, "lsilogic", "virtio-scsi", "lsisas1068", "virtio-transitional"))
	}

	if b.one(6) {
		b.add("<disk type='file' device='disk'><source file='/s'/><target dev='sd%c' bus='scsi'/></disk>", 'a'+b.IntN(20))
	}

	if b.one(6) {
		b.add("<disk type='file' device='cdrom'><source file='/c'/><target dev='sd%c' bus='sata'/></disk>", 'a'+b.IntN(20))
	}

	if b.one(8) {
		b.add("<controller type='sata' index='%d'/>", 1+b.IntN(2))
	}

	if b.one(6) && b.machine == "q35" {
		for _, part := range []string{"ehci1", "uhci1", "uhci2", "uhci3"}[:1+b.IntN(4)] {
			b.add("<controller type='usb' index='1' model='ich9-%s'>%s</controller>", part, b.open())
		}
	}

	if b.one(8) {
		b.add("<controller type='usb' index='2' model='%s'/>",
			pick(b, "piix3-uhci", "pci-ohci", "ehci"))
	}
}

func (b *builder) videos() {
	if b.machine == "virt" {
		return
	}

	switch {
	case b.one(3):
		b.add("<graphics type='vnc'/>")
	case b.one(3):
		b.add("<video><model type='%s'/>%s%s</video>", pick(b, "vga", "virtio", "bochs"), b.alias(),
			b.address(8))
	}

	if b.isKubeVirts {
		return
	}

	if b.one(4) {
		b.add("<video><model type='qxl'/>%s</video>", b.alias())
	}

	if b.one(6) {
		b.add("<video><model type='virtio' primary='yes'/>%s</video>", b.alias())
	}
}

// conventional adds devices that KubeVirt does not write, most of them on conventional PCI.
func (b *builder) conventional() {
	if b.one(3) {
		b.add("<watchdog model='i6300esb' action='reset'>%s%s</watchdog>", b.alias(), b.address(8))
	}

	for range b.IntN(2) * b.IntN(3) {
		b.add("<sound model='%s'>%s%s</sound>", pick(b, "ich9", "ich6", "ac97"), b.alias(),
			b.address(8))
	}

	if b.one(6) {
		b.add("<shmem name='m%d'><model type='ivshmem-plain'/><size unit='M'>4</size>%s</shmem>",
			b.next, b.alias())
	}

	if b.one(8) {
		b.add("<serial type='pty'><target type='pci-serial'/>%s</serial>", b.alias())
	}

	if b.one(8) {
		b.add("<iommu model='virtio'/>")
	}

	if b.one(8) {
		b.hasDIMM = true
		b.add("<memory model='dimm'><target><size unit='MiB'>128</size><node>0</node></target>%s</memory>", b.alias())
	}

	if b.one(8) {
		b.hasDIMM = true
		b.add("<memory model='virtio-mem'><target><size unit='MiB'>128</size><node>0</node><block unit='MiB'>2</block><requested unit='MiB'>128</requested></target>%s</memory>", b.alias())
	}

	if b.one(8) {
		b.add("<disk type='file' device='disk' model='virtio-transitional'><source file='/t'/><target dev='vdz' bus='virtio'/>%s</disk>", b.alias())
	}
}
