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

// Device is a device that has a PCI address or gets one, other than PCI controllers and placed
// hostdevs.
type Device struct {
	domain.Device

	// Connect says where libvirt plugs the device in.
	Connect Connect

	// Implicit is true for a device that libvirt adds.
	Implicit bool
}

// Devices returns the domain's devices in document order, then those that libvirt adds: a memory
// balloon, a USB controller, the controller of a SCSI disk. Added controllers come in libvirt's
// order.
func Devices(d *domain.Domain) []Device {
	g := guest{domain: d, q35: IsQ35(d.Machine), virt: isVirt(d.Machine)}
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

// guest collects the devices of a domain.
type guest struct {
	domain    *domain.Domain
	q35, virt bool
	devices   []Device
	own       int // how many of devices are the domain's own
}

func (g *guest) add(d domain.Device, how Connect) {
	g.devices = append(g.devices, Device{Device: d, Connect: how})
}

// PrimaryVideo returns the position of the video device that libvirt puts first: the one with
// primary='yes', else the first; -1 without any on PCI.
func PrimaryVideo(devices []Device) int {
	isVideo := func(d Device) bool { return d.Element == "video" }
	primary := slices.IndexFunc(devices, func(d Device) bool { return isVideo(d) && d.Primary })
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

	virtio // Express; a transitional device is Conventional
)

func (g *guest) connect(d domain.Device) Connect {
	kind, rules := g.rules(d)
	for _, r := range rules {
		switch {
		case !isOneOf(kind, r.kinds) || !isOneOf(d.Model, r.models):
		case r.how == virtio && d.Model == "virtio-transitional":
			return Conventional
		case r.how == virtio:
			return Express
		default:
			return r.how
		}
	}

	return NotPCI
}

// rule is the connection of devices of some kinds and models. Words are separated by spaces; unset
// stands for none, and no word for any.
type rule struct {
	kinds, models string
	how           Connect
}

const unset = "-"

func isOneOf(value, words string) bool {
	value = cmp.Or(value, unset)
	for word := range strings.SplitSeq(words, " ") {
		if word == value {
			return true
		}
	}

	return words == ""
}

// rules returns the kind of a device and the rules for its element. The first that applies counts.
func (g *guest) rules(d domain.Device) (kind string, rules []rule) {
	switch d.Element {
	case "controller":
		return d.Type, g.controllerRules(d)
	case "hostdev": // those that are not in Domain.Hostdevs
		if cmp.Or(d.Mode, "subsystem") == "subsystem" {
			return d.Type, []rule{
				{"pci", "", Express}, {"mdev", unset + " vfio-pci", Express},
				{"scsi_host", "", virtio},
			}
		}

	case "disk":
		return diskBus(d), []rule{{"virtio", "", virtio}}
	case "input":
		return d.Bus, []rule{{"virtio", "", virtio}}
	case "filesystem":
		return d.DriverType, []rule{{"loop nbd ploop", "", NotPCI}, {"", "", virtio}}
	case "serial", "parallel":
		return d.TargetType, []rule{{"pci-serial", "", Conventional}}
	case "interface":
		return d.Type, []rule{
			{"hostdev", "", Express},
			{"vdpa vhostuser", unset, Express},
			{"", unset, g.defaultModel()},
			{"", "usb-net", NotPCI},
			{"", "virtio virtio-non-transitional e1000e igb", Express},
			{"", "", Conventional},
		}

	case "video":
		return "", []rule{
			{"", unset + " default", g.defaultModel()}, {"", "none ramfb gop", NotPCI},
			{"", "virtio bochs", Express}, {"", "", Conventional},
		}

	case "memballoon", "rng", "vsock":
		return "", []rule{{"", "none xen", NotPCI}, {"", "", virtio}}
	case "memory":
		return "", []rule{{"", "virtio-mem virtio-pmem", Express}}
	case "shmem", "crypto":
		return "", []rule{{"", "", Conventional}}
	case "watchdog":
		return "", []rule{{"", "i6300esb", Conventional}}
	case "iommu":
		return "", []rule{{"", "virtio amd", Integrated}}
	case "panic":
		return "", []rule{{"", "pvpanic", Integrated}}
	case "sound":
		return "", []rule{{"", "es1370 ac97 ich6 ich9", Conventional}, {"", "virtio", Express}}
	}

	return "", nil
}

// controllerRules returns the rules for a controller. SCSI without a model is lsilogic where QEMU
// has that, else virtio-scsi (libvirt src/qemu/qemu_domain.c,
// qemuDomainDefaultSCSIControllerModel).
func (g *guest) controllerRules(d domain.Device) []rule {
	sata := Conventional
	if g.q35 && cmp.Or(d.Index, "0") == "0" { // the chipset's, at 0:1f.2
		sata = Integrated
	}

	return []rule{
		{"scsi", "ncr53c90", NotPCI},
		{"scsi", unset + " auto", EitherWay},
		{"scsi", "virtio-scsi virtio-non-transitional", Express},
		{"scsi", "", Conventional},
		{"usb", "none qusb1 qusb2", NotPCI},
		{"usb", "nec-xhci qemu-xhci", Express},
		{"usb", unset, g.defaultModel()},
		{"usb", "", Conventional},
		{"virtio-serial", "", virtio},
		{"sata", "", sata},
		{"nvme", "", Express},
		{"ide", "", Conventional},
	}
}

// defaultModel returns the connection of USB, a NIC or a video device without a model:
// conventional on x86, virtio on virt (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultNetModel
// and …DefaultVideoDevice).
func (g *guest) defaultModel() Connect {
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
