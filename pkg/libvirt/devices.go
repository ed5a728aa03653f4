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
	eitherWay            // express or conventional, by QEMU's build
	integrated           // directly on the root bus
)

// defaultModel is the connection of a NIC or a video device without a model: conventional on x86,
// virtio on virt (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultNetModel and
// …DefaultVideoDevice).
func (g *guest) defaultModel() connect {
	if g.q35 {
		return conventional
	}
	return express
}

func (g *guest) connect(d domain.Device) connect {
	switch d.Element {
	case "controller":
		return g.connectController(d)
	case "hostdev":
		return connectHostdev(d)
	case "disk":
		return when(diskBus(d) == "virtio", virtio(d.Model))
	case "input":
		return when(d.Bus == "virtio", virtio(d.Model))
	case "interface":
		return g.connectInterface(d)
	case "video":
		return g.connectVideo(d.Model)
	case "filesystem":
		return when(d.DriverType != "loop" && d.DriverType != "nbd" && d.DriverType != "ploop", virtio(d.Model))
	case "serial", "parallel":
		return when(d.TargetType == "pci-serial", conventional)
	}
	return connectByModel(d.Element, d.Model)
}

// connectByModel is connect for the elements that differ by model alone.
func connectByModel(element, model string) connect {
	switch element {
	case "memballoon", "rng", "vsock":
		return when(model != "none" && model != "xen", virtio(model))
	case "memory":
		return when(model == "virtio-mem" || model == "virtio-pmem", express)
	case "shmem", "crypto":
		return conventional
	case "watchdog":
		return when(model == "i6300esb", conventional)
	case "iommu":
		return when(model == "virtio" || model == "amd", integrated)
	case "panic":
		return when(model == "pvpanic", integrated)
	case "sound":
		switch model {
		case "es1370", "ac97", "ich6", "ich9":
			return conventional
		case "virtio":
			return express
		}
	}
	return notPCI
}

// connectController is connect for a controller. SCSI without a model is lsilogic where QEMU has
// that, else virtio-scsi (libvirt src/qemu/qemu_domain.c, qemuDomainDefaultSCSIControllerModel).
func (g *guest) connectController(d domain.Device) connect {
	switch d.Type {
	case "scsi":
		switch d.Model {
		case "ncr53c90":
			return notPCI
		case "", "auto":
			return eitherWay
		case "virtio-scsi", "virtio-non-transitional":
			return express
		}
		return conventional
	case "virtio-serial":
		return virtio(d.Model)
	case "usb":
		switch d.Model {
		case "none", "qusb1", "qusb2":
			return notPCI
		case "nec-xhci", "qemu-xhci":
			return express
		case "":
			return g.defaultModel()
		}
		return conventional
	case "sata":
		// The chipset of q35 has the first one at 0:1f.2.
		if g.q35 && cmp.Or(d.Index, "0") == "0" {
			return integrated
		}
		return conventional
	case "nvme":
		return express
	case "ide":
		return conventional
	}
	return notPCI
}

func (g *guest) connectInterface(d domain.Device) connect {
	if d.Type == "hostdev" {
		return express
	}
	switch d.Model {
	case "":
		return g.defaultModel()
	case "usb-net":
		return notPCI
	case "virtio", "virtio-non-transitional", "e1000e", "igb":
		return express
	}
	return conventional
}

func (g *guest) connectVideo(model string) connect {
	switch model {
	case "none", "ramfb", "gop":
		return notPCI
	case "virtio", "bochs":
		return express
	case "", "default":
		return g.defaultModel()
	}
	return conventional
}

// connectHostdev is connect for the hostdevs that are not in Domain.Hostdevs.
func connectHostdev(d domain.Device) connect {
	if cmp.Or(d.Mode, "subsystem") != "subsystem" {
		return notPCI
	}
	switch d.Type {
	case "pci":
		return express
	case "mdev":
		return when(cmp.Or(d.Model, "vfio-pci") == "vfio-pci", express)
	case "scsi_host":
		return virtio(d.Model)
	}
	return notPCI
}

// virtio is connect for a virtio device: transitional ones fit conventional slots only.
func virtio(model string) connect {
	if model == "virtio-transitional" {
		return conventional
	}
	return express
}

func when(isPCI bool, how connect) connect {
	if isPCI {
		return how
	}
	return notPCI
}

// diskBus returns the bus of a disk, which may follow from its name (libvirt
// src/conf/domain_conf.c, virDomainDiskDefParseXML).
func diskBus(disk domain.Device) string {
	if disk.Bus == "" && strings.HasPrefix(disk.TargetDev, "vd") {
		return "virtio"
	}
	return disk.Bus
}
