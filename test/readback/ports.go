package readback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/test/tree"
)

// Placeholders adds n placeholder interfaces after the domain's own
// (virtwrap/network/nichotplug.go newInterfacePlaceholder).
func Placeholders(domain []byte, n int) ([]byte, error) {
	return edit(domain, func(devices *tree.Node) {
		for i := range n {
			name := fmt.Sprintf("placeholder-%d", i)
			nic := &tree.Node{
				Name: "interface", Attrs: []tree.Attr{{Name: "type", Value: "ethernet"}},
			}

			nic.Add("source")
			nic.Add("target", "dev", name, "managed", "no")
			nic.Add("model", "type", "virtio-non-transitional")
			nic.Add("alias", "name", name)
			insertAfter(devices, "interface", nic)
		}
	})
}

// WithoutPlaceholders removes the placeholder interfaces from the domain of a first
// call, and returns how many there were.
func WithoutPlaceholders(domain []byte) ([]byte, int, error) {
	removed := 0
	out, err := edit(domain, func(devices *tree.Node) {
		before := len(devices.Nodes)
		devices.Remove(func(n *tree.Node) bool {
			return n.Name == "interface" &&
				strings.HasPrefix(n.Find("alias").Attr("name"), "placeholder-")
		})

		removed = before - len(devices.Nodes)
	})

	return out, removed, err
}

// AppendRootPorts adds n root ports after the controllers, from the highest PCI
// index on, up to index 31 (virtwrap/manager.go appendPCIeRootPortControllers).
func AppendRootPorts(domain []byte, n int) ([]byte, error) {
	return edit(domain, func(devices *tree.Node) {
		highest := 0
		for _, c := range devices.All("controller") {
			if c.Attr("type") == "pci" {
				highest = max(highest, tree.Number(c.Attr("index")))
			}
		}

		for index := highest + 1; index <= min(highest+n, highestPortIndex); index++ {
			port := &tree.Node{Name: "controller"}
			port.Set("type", "pci")
			port.Set("index", strconv.Itoa(index))
			port.Set("model", "pcie-root-port")
			insertAfter(devices, "controller", port)
		}
	})
}

func edit(domain []byte, change func(devices *tree.Node)) ([]byte, error) {
	root, err := tree.Parse(domain)
	if err != nil {
		return nil, err
	}

	devices := root.Find("devices")
	if devices == nil {
		return nil, fmt.Errorf("domain has no <devices>")
	}

	change(devices)
	return root.Bytes(), nil
}

// insertAfter inserts an element after the last one of its name.
func insertAfter(devices *tree.Node, name string, element *tree.Node) {
	at := 0
	for i, n := range devices.Nodes {
		if n.Name == name {
			at = i + 1
		}
	}

	devices.Nodes = slices.Insert(devices.Nodes, at, element)
}

// TakeDevices returns the domain in KubeVirt's memory after a readback: libvirt's devices as
// KubeVirt's types keep them, everything else as it was, and with keepInterfaces the domain's own
// interfaces, which have no address (virtwrap/network/nichotplug.go WithNetworkIfacesResources).
func (v Version) TakeDevices(readback, original []byte, keepInterfaces bool) ([]byte, error) {
	read, err := v.parse(readback)
	if err != nil {
		return nil, fmt.Errorf("readback: %w", err)
	}

	devices := read.Find("devices")
	return edit(original, func(old *tree.Node) {
		if keepInterfaces {
			devices.Remove(func(n *tree.Node) bool { return n.Name == "interface" })
			at := len(devices.All("emulator"))
			devices.Nodes = slices.Insert(devices.Nodes, at, old.All("interface")...)
		}
		*old = *devices
	})
}
