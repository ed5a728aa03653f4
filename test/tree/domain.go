package tree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ExpanderBus is the model of the controllers that are PCIe roots of their own.
const ExpanderBus = "pcie-expander-bus"

// Address is a guest PCI address; Bus is a controller's index.
type Address struct{ Bus, Slot, Function int }

func (a Address) String() string {
	return fmt.Sprintf("0000:%02x:%02x.%x", a.Bus, a.Slot, a.Function)
}

// AddressOf returns the guest PCI address of a device. It is nil where libvirt is to choose one,
// and for devices with an address of another type.
func AddressOf(device *Node) *Address {
	at := device.Find("address")
	a := Address{Number(at.Attr("bus")), Number(at.Attr("slot")), Number(at.Attr("function"))}
	if at.Attr("type") != "pci" || a == (Address{}) {
		return nil
	}

	return &a
}

// Number reads a number as libvirt does, in base 0. Text that is not a number
// counts as 0: libvirt's schema refuses it.
func Number(text string) int {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// Device is an element of <devices>.
type Device struct {
	*Node
	Label string   // its element and number, as in "disk 0"; "controller 5" for PCI controllers
	ID    string   // of a hostdev: its PCI address on the host, or its UUID
	At    *Address // nil without a PCI address
}

// Controller is a PCI controller.
type Controller struct {
	Model       string
	At          *Address // nil without an address
	Index       int
	BusNr, Cell int // or Unknown
	Hotplug     string
}

// Tree is the PCI Express tree of a domain.
type Tree struct {
	Devices     []Device           // in the order of the document, with the controllers
	Hostdevs    map[string]Device  // those that are passed through, by ID
	Controllers map[int]Controller // by index, with 0, the root bus
	Cells       []int              // the guest's NUMA cells
}

// Read reads the tree of a domain.
func Read(domain []byte) (*Tree, error) {
	root, err := Parse(domain)
	if err != nil {
		return nil, err
	}
	if root.Find("devices") == nil {
		return nil, errors.New("read domain: no <devices>")
	}

	return Of(root), nil
}

// Of returns the tree of a domain that has been read.
func Of(root *Node) *Tree {
	t := &Tree{
		Hostdevs:    map[string]Device{},
		Controllers: map[int]Controller{0: {BusNr: Unknown, Cell: Unknown}},
	}

	for _, cell := range root.Find("cpu", "numa").All("cell") {
		t.Cells = append(t.Cells, Number(cell.Attr("id")))
	}

	count := map[string]int{}
	var unnumbered []Controller
	for _, node := range root.Find("devices").Nodes {
		device := Device{Node: node, ID: hostID(node), At: AddressOf(node)}
		kind := node.Name
		if kind == "controller" {
			kind += " " + node.Attr("type")
		}

		device.Label = fmt.Sprintf("%s %d", kind, count[kind])
		count[kind]++

		if index := node.Attr("index"); kind == "controller pci" && index != "" {
			device.Label = "controller " + index
			t.Controllers[Number(index)] = readController(node)
		} else if kind == "controller pci" && node.Attr("model") != "pcie-root" {
			unnumbered = append(unnumbered, readController(node))
		}

		t.Devices = append(t.Devices, device)
		if device.ID != "" {
			t.Hostdevs[device.ID] = device
		}
	}

	// libvirt gives each the lowest free index (src/conf/domain_postparse.c,
	// virDomainControllerFindUnusedIndex).
	for _, c := range unnumbered {
		for c.Index = 0; ; c.Index++ {
			if _, taken := t.Controllers[c.Index]; !taken {
				break
			}
		}
		t.Controllers[c.Index] = c
	}

	return t
}

func readController(node *Node) Controller {
	target := node.Find("target")
	c := Controller{Model: node.Attr("model"), At: AddressOf(node),
		Index: Number(node.Attr("index")),
		BusNr: Unknown, Cell: Unknown, Hotplug: target.Attr("hotplug")}

	if number, given := target.Lookup("busNr"); given {
		c.BusNr = Number(number)
	}

	if cell := target.Find("node"); cell != nil {
		c.Cell = Number(cell.Text)
	}

	return c
}

// hostID returns what a hostdev passes through, "" for other kinds than PCI and mdev.
func hostID(device *Node) string {
	source := device.Find("source", "address")
	switch {
	case device.Name != "hostdev":
	case device.Attr("type") == "pci":
		return fmt.Sprintf("%04x:%02x:%02x.%x", Number(source.Attr("domain")),
			Number(source.Attr("bus")),
			Number(source.Attr("slot")), Number(source.Attr("function")))

	case device.Attr("type") == "mdev":
		return strings.ToLower(source.Attr("uuid"))
	}

	return ""
}

// Above returns the controllers above an address: the one that it is on, the one that this one is
// on, up to the root bus. A controller without an address has nothing above it.
func (t *Tree) Above(at *Address) (above []Controller) {
	for at != nil && len(above) <= len(t.Controllers) {
		c, exists := t.Controllers[at.Bus]
		if !exists {
			break
		}

		above = append(above, c)
		if at = c.At; c.Model == ExpanderBus {
			break
		}
	}

	return above
}

// RootBus returns the expander bus above an address, or 0 for pcie.0.
func (t *Tree) RootBus(at *Address) int {
	if above := t.Above(at); len(above) > 0 && above[len(above)-1].Model == ExpanderBus {
		return above[len(above)-1].Index
	}
	return 0
}

// Spot returns the place of a hostdev, on expander bus 0 where that is pcie.0. It is false for a
// device that is not under an expander bus.
func (t *Tree) Spot(id string) (Spot, bool) {
	at := t.Hostdevs[id].At
	bus := t.RootBus(at)
	spot := Spot{Root: fmt.Sprint("expander bus ", bus), Slot: id, Node: Unknown}
	for _, bridge := range slices.Backward(t.Above(at)) {
		if bridge.Index == bus {
			spot.Node = bridge.Cell
		} else {
			spot.Bridges = append(spot.Bridges, fmt.Sprint(bridge.Index))
		}
	}

	if at != nil {
		spot.Slot = fmt.Sprintf("%d/%d", at.Bus, at.Slot)
	}

	return spot, bus != 0
}
