package domain

import (
	"cmp"
	"iter"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// connect is how libvirt connects a device that has no address yet (libvirt
// src/qemu/qemu_domain_address.c, qemuDomainDeviceCalculatePCIConnectFlags, on
// a machine with PCI Express).
type connect int

const (
	notPCI       connect = iota
	express              // a port of its own
	conventional         // a slot of a PCI bridge, which stands on a port
	integrated           // straight on the root bus
)

// devices reads the devices other than PCI controllers.
func (r *reader) devices(root *xmledit.Element) error {
	for e := range r.each() {
		if err := r.device(e); err != nil {
			return err
		}
	}
	r.implicit()
	return nil
}

// each are the devices but PCI controllers, in document order.
func (r *reader) each() iter.Seq[*xmledit.Element] {
	return func(yield func(*xmledit.Element) bool) {
		for _, devices := range r.domain.doc.devices {
			for _, e := range devices.Children {
				isPCI := e.Local == "controller" && e.Value("type") == "pci"
				if e.Space == "" && !isPCI && !yield(e) {
					return
				}
			}
		}
	}
}

func (r *reader) device(e *xmledit.Element) error {
	if e.Local == "hostdev" {
		if name := alias(e); name != "" {
			r.domain.HostdevAliases = append(r.domain.HostdevAliases, name)
		}
		h, placed, err := r.hostdev(e)
		if err != nil {
			return err
		}
		if placed {
			r.domain.Hostdevs = append(r.domain.Hostdevs, h)
			r.domain.doc.hostdevs = append(r.domain.doc.hostdevs, e)
			return nil
		}
	}
	kind, how := r.connect(e)
	address := e.Child("address")
	d := Device{Element: e.Local, Type: kind, Alias: alias(e)}
	switch addressType := address.Value("type"); {
	case addressType == "pci", addressType == "" && address != nil && how != notPCI:
		var err error
		if d.Address, err = r.deviceAddress(address); err != nil {
			return err
		}
	case address != nil, how == notPCI:
		return nil
	}
	r.add(d, e, how)
	return nil
}

func (r *reader) add(d Device, e *xmledit.Element, how connect) {
	r.domain.Others = append(r.domain.Others, d)
	r.others = append(r.others, seat{how: how, element: e})
}

// defaultModel is how a NIC or a video device connects that has no model: a
// conventional device on x86, virtio on virt (libvirt
// src/qemu/qemu_domain.c, qemuDomainDefaultNetModel and …DefaultVideoDevice).
func defaultModel(q35 bool) connect {
	if q35 {
		return conventional
	}
	return express
}

// connect tells the kind of a device, as Device.Type has it, and how libvirt
// connects it.
func (r *reader) connect(e *xmledit.Element) (string, connect) {
	q35 := isQ35(r.domain.Machine)
	model := e.Value("model")
	switch e.Local {
	case "controller":
		return e.Value("type"), connectController(e, q35)
	case "hostdev":
		return e.Value("type"), connectHostdev(e)
	case "disk":
		bus := diskBus(e.Child("target"))
		return bus, when(bus == "virtio", virtio(model))
	case "input":
		return e.Value("bus"), when(e.Value("bus") == "virtio", virtio(model))
	case "interface":
		model = e.Child("model").Value("type")
		return model, connectInterface(e.Value("type"), model, q35)
	case "video":
		model = e.Child("model").Value("type")
		return model, connectVideo(model, q35)
	case "filesystem":
		driver := e.Child("driver").Value("type")
		return model, when(driver != "loop" && driver != "nbd" && driver != "ploop", virtio(model))
	case "serial", "parallel":
		target := e.Child("target").Value("type")
		return target, when(target == "pci-serial", conventional)
	}
	return model, connectByModel(e.Local, model)
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

func connectController(e *xmledit.Element, q35 bool) connect {
	model := e.Value("model")
	switch e.Value("type") {
	case "scsi":
		switch model {
		case "ncr53c90":
			return notPCI
		case "", "auto", "virtio-scsi", "virtio-non-transitional":
			// Without a model it is virtio-scsi or lsilogic, as QEMU is
			// built; a port of its own is the larger need.
			return express
		}
		return conventional
	case "virtio-serial":
		return virtio(model)
	case "usb":
		switch model {
		case "none", "qusb1", "qusb2":
			return notPCI
		case "nec-xhci", "qemu-xhci":
			return express
		case "":
			return defaultModel(q35)
		}
		return conventional
	case "sata":
		// The chipset of q35 has the first one at 0:1f.2.
		if q35 && cmp.Or(e.Value("index"), "0") == "0" {
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

func connectInterface(kind, model string, q35 bool) connect {
	switch {
	case kind == "hostdev":
		return express
	case model == "":
		return defaultModel(q35)
	case model == "usb-net":
		return notPCI
	case model == "virtio", model == "virtio-non-transitional", model == "e1000e", model == "igb":
		return express
	}
	return conventional
}

func connectVideo(model string, q35 bool) connect {
	switch model {
	case "none", "ramfb", "gop":
		return notPCI
	case "virtio", "bochs":
		return express
	case "", "default":
		return defaultModel(q35)
	}
	return conventional
}

// connectHostdev is connect for those that are not in Domain.Hostdevs.
func connectHostdev(e *xmledit.Element) connect {
	if cmp.Or(e.Value("mode"), "subsystem") != "subsystem" {
		return notPCI
	}
	switch e.Value("type") {
	case "pci":
		return express
	case "mdev":
		return when(isVFIOPCI(e), express)
	case "scsi_host":
		return virtio(e.Value("model"))
	}
	return notPCI
}

// virtio is how a virtio device connects: transitional ones fit conventional
// slots only.
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

// diskBus is the bus of a disk's target; without one the name tells (libvirt
// src/conf/domain_conf.c, virDomainDiskDefParseXML).
func diskBus(target *xmledit.Element) string {
	bus := target.Value("bus")
	if bus == "" && strings.HasPrefix(target.Value("dev"), "vd") {
		return "virtio"
	}
	return bus
}
