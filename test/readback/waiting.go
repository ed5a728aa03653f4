package readback

import (
	"fmt"
	"strings"

	"hook-sidecar/test/xmltree"
)

// placingOrder is the order in which libvirt gives addresses to kinds of
// devices (src/qemu/qemu_domain_address.c qemuDomainAssignDevicePCISlots, seen
// again in the samples).
func placingOrder() []string {
	return []string{"filesystem", "interface", "controller", "disk", "hostdev",
		"memballoon", "rng", "video", "input", "vsock"}
}

// waiting lists the devices that need a port of their own, in libvirt's order.
func (b *board) waiting() ([]*xmltree.Node, error) {
	var list []*xmltree.Node
	for _, name := range placingOrder() {
		for _, device := range b.devices.All(name) {
			need, err := b.needsPort(device)
			if err != nil {
				return nil, err
			}
			if need {
				list = append(list, device)
			}
		}
	}
	return list, nil
}

// needsPort says whether a device is a PCI Express endpoint without address.
func (b *board) needsPort(device *xmltree.Node) (bool, error) {
	if device.Find("address") != nil {
		return false, nil
	}
	model := device.Attr("model")
	switch device.Name {
	case "interface":
		model = device.Find("model").Attr("type")
	case "disk":
		if device.Find("target").Attr("bus") != "virtio" {
			return false, nil
		}
	case "hostdev":
		return device.Attr("type") == "pci" || device.Attr("model") == "vfio-pci", nil
	case "input":
		return device.Attr("bus") == "virtio", nil
	case "video":
		return !b.q35 && device.Find("model").Attr("type") == "virtio", nil
	case "filesystem", "vsock":
		return true, nil
	case "controller":
		if !wantsPort(device) {
			return false, nil
		}
	case "memballoon":
		if model == "none" {
			return false, nil
		}
	}
	switch model {
	case "", "virtio", "virtio-non-transitional", "qemu-xhci", "nec-xhci", "e1000e", "igb":
		return true, nil
	}
	return false, fmt.Errorf("the model knows no place for a <%s> of model %q", device.Name, model)
}

// wantsPort tells the controllers that are PCI devices on a port from the PCI
// bridges and from those that are part of the chipset.
func wantsPort(controller *xmltree.Node) bool {
	switch controller.Attr("type") {
	case "scsi", "virtio-serial":
		return true
	case "usb":
		return strings.HasSuffix(controller.Attr("model"), "xhci")
	}
	return false
}
