package libvirt

import "hook-sidecar/pkg/domain"

// Device is a device that has a PCI address or gets one, other than the PCI
// controllers and the hostdevs that are placed.
type Device struct {
	domain.Device

	// NeedsPort is true when the device has no address and libvirt will take a
	// free root port for it, on q35 and virt. Conventional PCI devices share a
	// bridge; where libvirt will add that bridge, the first of them has it.
	NeedsPort bool

	// NeedsBridge is true for that first one: libvirt adds the bridge with a
	// root port of its own, also where a port is free (measured, libvirt 9).
	NeedsBridge bool
}

// Devices are the domain's devices in document order, then those that libvirt
// adds: a memory balloon, a USB controller, the controller of a SCSI disk.
func Devices(d *domain.Domain) []Device {
	devices := make([]Device, len(d.Others))
	for i, o := range d.Others {
		devices[i] = Device{Device: o, NeedsPort: o.NeedsPort, NeedsBridge: o.NeedsBridge}
	}
	return devices
}
