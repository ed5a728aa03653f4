package readback

import (
	"fmt"
	"strings"

	"hook-sidecar/test/xmltree"
)

// Libvirt models define followed by `dumpxml --inactive` of libvirt 9.0, as far
// as KubeVirt's types can see it and for the devices that KubeVirt emits on q35
// and aarch64 virt: addresses, the controllers that libvirt adds, mode,
// aliases. The result is printed as a tree, not in libvirt's own spelling. It
// fails where libvirt refuses an address and on devices that it does not know
// how to place (a conventional PCI device needs a bridge).
func Libvirt(domain []byte) ([]byte, error) {
	root, err := xmltree.Parse(domain)
	if err != nil {
		return nil, err
	}
	devices := root.Find("devices")
	if devices == nil {
		return nil, fmt.Errorf("define domain: no <devices>")
	}
	board := &board{
		q35:     !strings.HasPrefix(root.Find("os", "type").Attr("machine"), "virt"),
		devices: devices,
	}
	addImplicit(root, devices, board.q35)
	for _, device := range devices.Nodes {
		normalize(device, devices)
	}
	if err := board.assign(); err != nil {
		return nil, fmt.Errorf("define domain: %w", err)
	}
	sortControllers(devices)
	return root.Bytes(), nil
}

// addImplicit adds what every machine has: the emulator, and on q35 the SATA
// controller at 00:1f.2 and the PS/2 inputs (libvirt src/qemu/qemu_domain.c,
// src/conf/domain_conf.c virDomainDefAddImplicitDevices).
func addImplicit(root, devices *xmltree.Node, q35 bool) {
	arch := root.Find("os", "type").Attr("arch")
	if devices.Find("emulator") == nil {
		devices.Add("emulator").Text = "/usr/bin/qemu-system-" + arch
	}
	if q35 && controllers(devices, "sata") == nil {
		addAddress(devices.Add("controller", "type", "sata", "index", "0"), address{slot: 0x1f, function: 2})
	}
	if q35 {
		for _, kind := range []string{"mouse", "keyboard"} {
			if !hasInput(devices, kind) {
				devices.Add("input", "type", kind, "bus", "ps2")
			}
		}
	}
	if !hasIndex(devices, 0) {
		devices.Add("controller", "type", "pci", "index", "0", "model", "pcie-root")
	}
}

func hasInput(devices *xmltree.Node, kind string) bool {
	for _, input := range devices.All("input") {
		if input.Attr("type") == kind && input.Attr("bus") == "ps2" {
			return true
		}
	}
	return false
}

func hasIndex(devices *xmltree.Node, index int) bool {
	for _, c := range controllers(devices, "pci") {
		if number(c.Attr("index")) == index {
			return true
		}
	}
	return false
}

// normalize is what libvirt changes in a device besides its address.
func normalize(device, devices *xmltree.Node) {
	device.Remove(func(n *xmltree.Node) bool {
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

// mirrorSerial: the first console of type serial is the first serial port seen
// from another side, and libvirt prints that port's backend for it.
func mirrorSerial(console, serial *xmltree.Node) {
	if serial == nil || console.Find("target").Attr("type") != "serial" {
		return
	}
	console.Set("type", serial.Attr("type"))
	if source := serial.Find("source"); source != nil && console.Find("source") == nil {
		console.Nodes = append(console.Nodes, source.Clone())
	}
}

// fillTarget: ports get a chassis and a port number, which KubeVirt's types
// lose; of the element itself an empty <target> stays.
func fillTarget(controller *xmltree.Node) {
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
func sortControllers(devices *xmltree.Node) {
	var types []string
	byType := map[string][]*xmltree.Node{}
	for _, c := range devices.All("controller") {
		kind := c.Attr("type")
		if byType[kind] == nil {
			types = append(types, kind)
		}
		byType[kind] = append(byType[kind], c)
	}
	devices.Remove(func(n *xmltree.Node) bool { return n.Name == "controller" })
	for _, kind := range types {
		byIndex(byType[kind])
		devices.Nodes = append(devices.Nodes, byType[kind]...)
	}
}
