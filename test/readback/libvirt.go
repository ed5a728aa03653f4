package readback

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/test/tree"
)

// Libvirt models define followed by `dumpxml --inactive` of libvirt 9.0, as far
// as KubeVirt's types can see it and for the devices that KubeVirt emits on q35
// and aarch64 virt: addresses, the controllers that libvirt adds, mode,
// aliases. The result is formatted as KubeVirt does, not as libvirt. It fails where
// libvirt refuses an address, and for devices that the model does not know (a
// conventional PCI device needs a bridge).
func Libvirt(domain []byte) ([]byte, error) {
	root, err := tree.Parse(domain)
	if err != nil {
		return nil, err
	}
	devices := root.Find("devices")
	if devices == nil {
		return nil, fmt.Errorf("define domain: no <devices>")
	}
	q35 := !strings.HasPrefix(root.Find("os", "type").Attr("machine"), "virt")
	addImplicit(root, devices, q35)
	for _, device := range devices.Nodes {
		normalize(device, devices)
	}
	if err := (&allocator{q35: q35, devices: devices}).assign(root); err != nil {
		return nil, fmt.Errorf("define domain: %w", err)
	}
	sortControllers(devices)
	return root.Bytes(), nil
}

// addImplicit adds what every machine has: the emulator, and on q35 the SATA
// controller at 00:1f.2 and the PS/2 inputs (libvirt src/qemu/qemu_domain.c,
// src/conf/domain_conf.c virDomainDefAddImplicitDevices).
func addImplicit(root, devices *tree.Node, q35 bool) {
	arch := root.Find("os", "type").Attr("arch")
	if devices.Find("emulator") == nil {
		devices.Add("emulator").Text = "/usr/bin/qemu-system-" + arch
	}
	if q35 {
		if len(controllers(devices, "sata")) == 0 {
			addAddress(devices.Add("controller", "type", "sata", "index", "0"), tree.Address{Slot: 0x1f, Function: 2})
		}
		for _, kind := range []string{"mouse", "keyboard"} {
			isKind := func(n *tree.Node) bool { return n.Attr("type") == kind && n.Attr("bus") == "ps2" }
			if !slices.ContainsFunc(devices.All("input"), isKind) {
				devices.Add("input", "type", kind, "bus", "ps2")
			}
		}
	}
	hasRoot := func(c *tree.Node) bool { return tree.Number(c.Attr("index")) == 0 }
	if !slices.ContainsFunc(controllers(devices, "pci"), hasRoot) {
		devices.Add("controller", "type", "pci", "index", "0", "model", "pcie-root")
	}
}

// normalize is what libvirt changes in a device besides its address.
func normalize(device, devices *tree.Node) {
	device.Remove(func(n *tree.Node) bool {
		return n.Name == "alias" && !strings.HasPrefix(n.Attr("name"), "ua-") ||
			n.Name == "filesystemOverhead" || n.Name == "capacity"
	})
	switch device.Name {
	case "hostdev":
		device.Set("mode", "subsystem")
		if _, present := device.Lookup("managed"); !present {
			device.Set("managed", "no")
		}
		if source := device.Find("source", "address"); source != nil {
			source.Unset("type")
		}
		if _, present := device.Lookup("display"); !present && device.Attr("type") == "mdev" && device.Attr("model") == "vfio-pci" {
			device.Set("display", "off") // src/qemu/qemu_domain.c, qemuDomainHostdevDefMdevPostParse
		}
		if device.Attr("type") == "usb" && device.Find("address") == nil {
			device.Add("address", "type", "usb", "bus", "0", "port", "1")
		}
	case "disk":
		if source := device.Find("source"); source != nil && device.Attr("type") != "network" {
			source.Unset("name")
		}
	case "console":
		mirrorSerial(device, devices.Find("serial"))
	case "controller":
		fillTarget(device)
	}
}

// mirrorSerial: the first console of type serial is the first serial port, and
// libvirt prints that port's backend for it.
func mirrorSerial(console, serial *tree.Node) {
	if serial == nil || console.Find("target").Attr("type") != "serial" {
		return
	}
	console.Set("type", serial.Attr("type"))
	if source := serial.Find("source"); source != nil && console.Find("source") == nil {
		console.Nodes = append(console.Nodes, source.Clone())
	}
}

// fillTarget: ports get a target with chassis and port number. KubeVirt's types
// lose these and keep an empty <target>.
func fillTarget(controller *tree.Node) {
	switch controller.Attr("model") {
	case "pcie-root-port", "pcie-switch-downstream-port":
		if controller.Find("target") == nil {
			controller.Add("target", "chassis", controller.Attr("index"))
		}
	}
}

// sortControllers: libvirt keeps the controllers of one type together, by
// index (src/conf/domain_conf.c virDomainControllerInsert); types stay in the
// order of their first controller.
func sortControllers(devices *tree.Node) {
	all := devices.All("controller")
	devices.Remove(func(n *tree.Node) bool { return n.Name == "controller" })
	for len(all) > 0 {
		kind := all[0].Attr("type")
		for _, c := range byIndex(all) {
			if c.Attr("type") == kind {
				devices.Nodes = append(devices.Nodes, c)
			}
		}
		all = slices.DeleteFunc(all, func(c *tree.Node) bool { return c.Attr("type") == kind })
	}
}
