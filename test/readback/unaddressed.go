package readback

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/test/tree"
)

// placingOrder is the order in which libvirt gives addresses to kinds of
// devices (src/qemu/qemu_domain_address.c qemuDomainAssignDevicePCISlots; the
// samples show it too).
func placingOrder() []string {
	return []string{"filesystem", "interface", "controller", "disk", "hostdev",
		"memballoon", "rng", "video", "input", "vsock"}
}

// unaddressed are the devices that take a port of their own, in libvirt's order.
func (a *allocator) unaddressed() ([]*tree.Node, error) {
	var list []*tree.Node
	for _, name := range placingOrder() {
		for _, device := range a.devices.All(name) {
			need, err := a.needsPort(device)
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

// needsPort reports whether a device is a PCI Express endpoint without address.
func (a *allocator) needsPort(device *tree.Node) (bool, error) {
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
		return !a.q35 && device.Find("model").Attr("type") == "virtio", nil
	case "filesystem", "vsock":
		return true, nil
	case "controller":
		// PCI bridges and the chipset's controllers take no port.
		kind := device.Attr("type")
		if kind != "scsi" && kind != "virtio-serial" && !(kind == "usb" && strings.HasSuffix(model, "xhci")) {
			return false, nil
		}
	case "memballoon":
		if model == "none" {
			return false, nil
		}
	}
	if slices.Contains([]string{"", "virtio", "virtio-non-transitional", "qemu-xhci", "nec-xhci", "e1000e", "igb"}, model) {
		return true, nil
	}
	return false, fmt.Errorf("the model does not know where libvirt puts a <%s> of model %q", device.Name, model)
}
