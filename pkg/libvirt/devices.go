// Package libvirt models how libvirt completes a domain: the devices and controllers that it adds,
// and where it plugs devices in. What addresses they get is in package alloc. It reads the model of
// pkg/domain and knows no XML and no policy.
package libvirt

import (
	"cmp"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
)

// Endpoint is a device that has a PCI address or gets one, other than PCI controllers and placed
// hostdevs.
type Endpoint struct {
	domain.Device

	// Connect says where libvirt plugs the device in.
	Connect Connect

	// Implicit is true for a device that libvirt adds.
	Implicit bool
}

// Endpoints returns the domain's devices in document order, then those that libvirt adds: a memory
// balloon, a USB controller, the controller of a SCSI disk. Added controllers come in libvirt's
// order.
func Endpoints(d *domain.Domain) []Endpoint {
	g := collector{domain: d, q35: IsQ35(d.Machine), virt: isVirt(d.Machine)}
	for _, o := range d.Others {
		how := g.connect(o)
		if o.AddressType == "pci" || o.AddressType == "" && how != NotPCI {
			g.add(o, how)
		}
	}

	g.own = len(g.devices)
	g.addImplicit()
	for i := range g.devices[g.own:] {
		g.devices[g.own+i].Implicit = true
	}

	return g.devices
}

// collector collects the devices of a domain.
type collector struct {
	domain    *domain.Domain
	q35, virt bool
	devices   []Endpoint
	own       int // how many of devices are the domain's own
}

func (g *collector) add(d domain.Device, how Connect) {
	g.devices = append(g.devices, Endpoint{Device: d, Connect: how})
}

// PrimaryVideo returns the position of the video device that libvirt puts first: the one with
// primary='yes', else the first; -1 without any on PCI.
func PrimaryVideo(devices []Endpoint) int {
	isVideo := func(d Endpoint) bool { return d.Element == "video" }
	primary := slices.IndexFunc(devices, func(d Endpoint) bool { return isVideo(d) && d.Primary })
	if primary < 0 {
		return slices.IndexFunc(devices, isVideo)
	}

	return primary
}

// HasExpanderBuses reports whether the machine has expander buses: q35, and virt on aarch64
// (libvirt src/qemu/qemu_validate.c, qemuValidateDomainDeviceDefControllerPCI).
func HasExpanderBuses(d *domain.Domain) bool {
	switch d.Arch {
	case "aarch64":
		return isVirt(d.Machine)
	case "x86_64", "i686", "":
		return IsQ35(d.Machine)
	}

	return false
}

// IsQ35 and isVirt have the machines with PCI Express (libvirt src/qemu/qemu_domain.c,
// qemuDomainMachineIsQ35 and …IsARMVirt).
func IsQ35(machine string) bool { return machine == "q35" || strings.HasPrefix(machine, "pc-q35") }

func isVirt(machine string) bool { return machine == "virt" || strings.HasPrefix(machine, "virt-") }

// Connect is the connection that libvirt gives a device without an address on a machine with PCI
// Express (src/qemu/qemu_domain_address.c, qemuDomainDeviceCalculatePCIConnectFlags).
type Connect int

// The connections.
const (
	NotPCI       Connect = iota
	Express              // a port of its own
	Conventional         // a slot of a bridge to conventional PCI, which is under a port
	EitherWay            // Express or Conventional, by QEMU's build
	Integrated           // directly on the root bus

	// in rules only
	virtio       // Express; a transitional device is Conventional
	machineModel // as collector.defaultModel, of a device without a model
	sata         // Integrated for the chipset's controller, at 0:1f.2, else Conventional
)

// rule is the connection of devices of some kinds and models. Words are separated by spaces; unset
// stands for none, and no word for any.
type rule struct {
	kinds, models string
	how           Connect
}

const unset = "-"

// rules are the rules per element. The first that applies counts; without one a device is not on
// PCI. SCSI without a model is lsilogic where QEMU has that, else virtio-scsi (libvirt
// src/qemu/qemu_domain.c, qemuDomainDefaultSCSIControllerModel).
var rules = map[string][]rule{
	"controller": {
		{"scsi", "ncr53c90", NotPCI},
		{"scsi", unset + " auto", EitherWay},
		{"scsi", "virtio-scsi virtio-non-transitional", Express},
		{"scsi", "", Conventional},
		{"usb", "none qusb1 qusb2", NotPCI},
		{"usb", "nec-xhci qemu-xhci", Express},
		{"usb", unset, machineModel},
		{"usb", "", Conventional},
		{"virtio-serial", "", virtio},
		{"sata", "", sata},
		{"nvme", "", Express},
		{"ide", "", Conventional},
	},
	"hostdev": { // those that are not in Domain.Hostdevs
		{"pci", "", Express},
		{"mdev", unset + " vfio-pci", Express},
		{"scsi_host", "", virtio},
	},
	"interface": {
		{"hostdev", "", Express},
		{"vdpa vhostuser", unset, Express},
		{"", unset, machineModel},
		{"", "usb-net", NotPCI},
		{"", "virtio virtio-non-transitional e1000e igb", Express},
		{"", "", Conventional},
	},
	"video": {
		{"", unset + " default", machineModel},
		{"", "none ramfb gop", NotPCI},
		{"", "virtio bochs", Express},
		{"", "", Conventional},
	},
	"disk":       {{"virtio", "", virtio}},
	"input":      {{"virtio", "", virtio}},
	"filesystem": {{"loop nbd ploop", "", NotPCI}, {"", "", virtio}},
	"serial":     {{"pci-serial", "", Conventional}},
	"parallel":   {{"pci-serial", "", Conventional}},
	"memballoon": {{"", "none xen", NotPCI}, {"", "", virtio}},
	"rng":        {{"", "none xen", NotPCI}, {"", "", virtio}},
	"vsock":      {{"", "none xen", NotPCI}, {"", "", virtio}},
	"memory":     {{"", "virtio-mem virtio-pmem", Express}},
	"shmem":      {{"", "", Conventional}},
	"crypto":     {{"", "", Conventional}},
	"watchdog":   {{"", "i6300esb", Conventional}},
	"iommu":      {{"", "virtio amd", Integrated}},
	"panic":      {{"", "pvpanic", Integrated}},
	"sound":      {{"", "es1370 ac97 ich6 ich9", Conventional}, {"", "virtio", Express}},
}

// connect returns the connection of a device.
func (g *collector) connect(d domain.Device) Connect {
	kind := deviceKind(d)
	for _, r := range rules[d.Element] {
		if isOneOf(kind, r.kinds) && isOneOf(d.Model, r.models) {
			return g.resolve(r.how, d)
		}
	}

	return NotPCI
}

// resolve returns the connection of a device for one that only rules have.
func (g *collector) resolve(how Connect, d domain.Device) Connect {
	isTransitional := d.Model == "virtio-transitional"
	isChipsets := g.q35 && cmp.Or(d.Index, "0") == "0"
	switch {
	case how == machineModel:
		return g.defaultModel()
	case how == virtio && !isTransitional:
		return Express
	case how == sata && isChipsets:
		return Integrated
	case how == virtio, how == sata:
		return Conventional
	}

	return how
}

// deviceKind returns what the rules of a device's element call its kind.
func deviceKind(d domain.Device) string {
	switch d.Element {
	case "controller", "interface":
		return d.Type
	case "hostdev":
		if cmp.Or(d.Mode, "subsystem") == "subsystem" {
			return d.Type
		}

	case "disk":
		return diskBus(d)
	case "input":
		return d.Bus
	case "filesystem":
		return d.DriverType
	case "serial", "parallel":
		return d.TargetType
	}

	return ""
}

// isOneOf reports whether a value is among words.
func isOneOf(value, words string) bool {
	value = cmp.Or(value, unset)
	for word := range strings.SplitSeq(words, " ") {
		if word == value {
			return true
		}
	}

	return words == ""
}

// defaultModel returns the connection of USB, a NIC or a video device without a model:
// conventional on x86, virtio on virt (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultNetModel
// and …DefaultVideoDevice).
func (g *collector) defaultModel() Connect {
	if g.q35 {
		return Conventional
	}
	return Express
}

// diskBus returns the bus of a disk, which may follow from its name (libvirt
// src/conf/domain_conf.c, virDomainDiskDefParseXML).
func diskBus(disk domain.Device) string {
	switch {
	case disk.Bus != "":
		return disk.Bus
	case strings.HasPrefix(disk.TargetDev, "vd"):
		return "virtio"
	case strings.HasPrefix(disk.TargetDev, "sd"):
		return "scsi"
	}

	return ""
}
