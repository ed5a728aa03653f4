// Package libvirt models how libvirt completes a domain: the devices and controllers that it adds,
// and which of the unaddressed devices take a root port. It reads the model of pkg/domain and
// knows no XML and no policy.
package libvirt

import (
	"cmp"
	"strings"

	"hook-sidecar/pkg/domain"
)

// Device is a device that has a PCI address or gets one, other than PCI controllers and placed
// hostdevs.
type Device struct {
	domain.Device

	// NeedsPort is true for an unaddressed device for which libvirt will take a root port, on q35
	// and virt, and for the first of the conventional PCI devices where libvirt will add a bridge.
	NeedsPort bool

	// NeedsBridge is true for that first one: libvirt adds the bridge with a root port of its
	// own, even where a port is free (measured, libvirt 9).
	NeedsBridge bool

	// DependsOnQEMUBuild is true where QEMU's build decides between a port and a bridge.
	DependsOnQEMUBuild bool

	// ChipsetSlot is the root bus's slot that q35 has for the device; 0 without one.
	ChipsetSlot int
}

// Devices returns the domain's devices in document order, then those that libvirt adds: a memory
// balloon, a USB controller, the controller of a SCSI disk.
func Devices(d *domain.Domain) []Device {
	g := guest{domain: d, q35: isQ35(d.Machine), virt: isVirt(d.Machine)}
	for _, o := range d.Others {
		how := g.connect(o)
		if o.AddressType == "pci" || o.AddressType == "" && how != notPCI {
			g.add(o, how)
		}
	}
	g.addImplicit()
	g.assignPorts()
	return g.devices
}

// guest collects the devices of a domain.
type guest struct {
	domain    *domain.Domain
	q35, virt bool
	devices   []Device
	how       []connect // of devices, position by position
}

func (g *guest) add(d domain.Device, how connect) {
	g.devices = append(g.devices, Device{Device: d})
	g.how = append(g.how, how)
}

// HasExpanderBuses reports whether the machine has expander buses: q35, and virt on aarch64
// (libvirt src/qemu/qemu_validate.c, qemuValidateDomainDeviceDefControllerPCI).
func HasExpanderBuses(d *domain.Domain) bool {
	switch d.Arch {
	case "aarch64":
		return isVirt(d.Machine)
	case "x86_64", "i686", "":
		return isQ35(d.Machine)
	}
	return false
}

// isQ35 and isVirt have the machines with PCI Express (libvirt src/qemu/qemu_domain.c,
// qemuDomainMachineIsQ35 and …IsARMVirt).
func isQ35(machine string) bool { return machine == "q35" || strings.HasPrefix(machine, "pc-q35") }

func isVirt(machine string) bool { return machine == "virt" || strings.HasPrefix(machine, "virt-") }

// connect is the connection that libvirt gives an unaddressed device on a machine with PCI Express
// (src/qemu/qemu_domain_address.c, qemuDomainDeviceCalculatePCIConnectFlags).
type connect int

const (
	notPCI       connect = iota
	express              // a port of its own
	conventional         // a slot of a PCI bridge, which is under a port
	virtio               // express; a transitional device is conventional
	eitherWay            // express or conventional, by QEMU's build
	integrated           // directly on the root bus
)

func (g *guest) connect(d domain.Device) connect {
	kind, rules := g.rules(d)
	for _, r := range rules {
		switch {
		case !isOneOf(kind, r.kinds) || !isOneOf(d.Model, r.models):
		case r.how == virtio && d.Model == "virtio-transitional":
			return conventional
		case r.how == virtio:
			return express
		default:
			return r.how
		}
	}
	return notPCI
}

// rule is the connection of devices of some kinds and models. Words are separated by spaces; unset
// stands for none, and no word for any.
type rule struct {
	kinds, models string
	how           connect
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

// rules returns the kind of a device, and the rules for its element, the first of which that applies
// counts.
func (g *guest) rules(d domain.Device) (kind string, rules []rule) {
	switch d.Element {
	case "controller":
		return d.Type, g.controllerRules(d)
	case "hostdev": // those that are not in Domain.Hostdevs
		if cmp.Or(d.Mode, "subsystem") == "subsystem" {
			return d.Type, []rule{{"pci", "", express}, {"mdev", unset + " vfio-pci", express}, {"scsi_host", "", virtio}}
		}
	case "disk":
		return diskBus(d), []rule{{"virtio", "", virtio}}
	case "input":
		return d.Bus, []rule{{"virtio", "", virtio}}
	case "filesystem":
		return d.DriverType, []rule{{"loop nbd ploop", "", notPCI}, {"", "", virtio}}
	case "serial", "parallel":
		return d.TargetType, []rule{{"pci-serial", "", conventional}}
	case "interface":
		return d.Type, []rule{
			{"hostdev", "", express},
			{"", unset, g.defaultModel()},
			{"", "usb-net", notPCI},
			{"", "virtio virtio-non-transitional e1000e igb", express},
			{"", "", conventional},
		}
	case "video":
		return "", []rule{{"", unset + " default", g.defaultModel()}, {"", "none ramfb gop", notPCI}, {"", "virtio bochs", express}, {"", "", conventional}}
	case "memballoon", "rng", "vsock":
		return "", []rule{{"", "none xen", notPCI}, {"", "", virtio}}
	case "memory":
		return "", []rule{{"", "virtio-mem virtio-pmem", express}}
	case "shmem", "crypto":
		return "", []rule{{"", "", conventional}}
	case "watchdog":
		return "", []rule{{"", "i6300esb", conventional}}
	case "iommu":
		return "", []rule{{"", "virtio amd", integrated}}
	case "panic":
		return "", []rule{{"", "pvpanic", integrated}}
	case "sound":
		return "", []rule{{"", "es1370 ac97 ich6 ich9", conventional}, {"", "virtio", express}}
	}
	return "", nil
}

// controllerRules are the rules for a controller. SCSI without a model is lsilogic where QEMU has
// that, else virtio-scsi (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultSCSIControllerModel).
func (g *guest) controllerRules(d domain.Device) []rule {
	sata := conventional
	if g.q35 && cmp.Or(d.Index, "0") == "0" { // the chipset's, at 0:1f.2
		sata = integrated
	}
	return []rule{
		{"scsi", "ncr53c90", notPCI},
		{"scsi", unset + " auto", eitherWay},
		{"scsi", "virtio-scsi virtio-non-transitional", express},
		{"scsi", "", conventional},
		{"usb", "none qusb1 qusb2", notPCI},
		{"usb", "nec-xhci qemu-xhci", express},
		{"usb", unset, g.defaultModel()},
		{"usb", "", conventional},
		{"virtio-serial", "", virtio},
		{"sata", "", sata},
		{"nvme", "", express},
		{"ide", "", conventional},
	}
}

// defaultModel is the connection of USB, a NIC or a video device without a model: conventional on
// x86, virtio on virt (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultNetModel and
// …DefaultVideoDevice).
func (g *guest) defaultModel() connect {
	if g.q35 {
		return conventional
	}
	return express
}

// diskBus returns the bus of a disk, which may follow from its name (libvirt
// src/conf/domain_conf.c, virDomainDiskDefParseXML).
func diskBus(disk domain.Device) string {
	if disk.Bus == "" && strings.HasPrefix(disk.TargetDev, "vd") {
		return "virtio"
	}
	return disk.Bus
}
