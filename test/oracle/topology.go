package oracle

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/test/xmltree"
)

// place is a guest PCI address; bus is a controller's index.
type place struct {
	bus, slot, function int
}

func (p place) String() string {
	return fmt.Sprintf("0000:%02x:%02x.%x", p.bus, p.slot, p.function)
}

// bridge is one PCI controller; parent is -1 where it has no address.
type bridge struct {
	model  string
	parent int
	busNr  int
}

// topology is a domain's PCI devices by address, read without libvirtxml: all
// kinds of devices, also those that libvirtxml does not know.
type topology struct {
	bridges map[int]bridge // by index
	devices map[place]string
}

func newTopology(domain []byte) (*topology, error) {
	root, err := parseTree(domain)
	if err != nil {
		return nil, err
	}
	t := &topology{bridges: map[int]bridge{0: {model: "pcie-root", parent: -1}}, devices: map[place]string{}}
	for _, device := range root.Find("devices").Nodes {
		at := device.Find("address")
		p := place{number(at.Attr("bus")), number(at.Attr("slot")), number(at.Attr("function"))}
		hasPlace := at.Attr("type") == "pci"
		if hasPlace {
			t.devices[p] = describe(device)
		}
		if device.Name != "controller" || device.Attr("type") != "pci" {
			continue
		}
		b := bridge{model: device.Attr("model"), parent: -1, busNr: number(device.Find("target").Attr("busNr"))}
		if hasPlace {
			b.parent = p.bus
		}
		t.bridges[number(device.Attr("index"))] = b
	}
	return t, nil
}

func describe(device *xmltree.Node) string {
	name := "<" + device.Name + ">"
	if device.Name == "controller" {
		name = fmt.Sprintf("controller %s %s", device.Attr("model"), device.Attr("index"))
	}
	if alias := device.Find("alias").Attr("name"); alias != "" {
		name += " " + alias
	}
	return name
}

// holes lists indexes that no controller has, up to the highest that a
// controller has or an address names: libvirt fills each with a root port.
func (t *topology) holes() (findings []string) {
	highest := slices.Max(slices.Collect(maps.Keys(t.bridges)))
	for p := range t.devices {
		highest = max(highest, p.bus)
	}
	for index := range highest {
		if _, present := t.bridges[index+1]; !present {
			findings = append(findings, fmt.Sprintf("no controller has index %d, and %d is in use", index+1, highest))
		}
	}
	return findings
}

// expander returns the index of the expander bus above a bus, 0 for the main
// bus.
func (t *topology) expander(bus int) int {
	for range t.bridges {
		b := t.bridges[bus]
		if b.model == "pcie-expander-bus" {
			return bus
		}
		if bus = max(b.parent, 0); bus == 0 {
			break
		}
	}
	return 0
}

// intruders lists devices and controllers below an expander bus that the input
// did not put there: libvirt fills free ports wherever they are.
func (t *topology) intruders(input *topology) (findings []string) {
	for _, p := range t.places() {
		if t.expander(p.bus) == 0 {
			continue
		}
		if _, planned := input.devices[p]; !planned {
			findings = append(findings, fmt.Sprintf("%s landed at %s, below expander bus %d", t.devices[p], p, t.expander(p.bus)))
		}
	}
	return findings
}

// lostDevices lists what libvirt accepts and QEMU refuses at start, or the
// firmware does not number: a parent above its child, function 0 missing, bus
// numbers that do not suffice (QEMU docs/pcie.txt).
func (t *topology) lostDevices() (findings []string) {
	for _, index := range slices.Sorted(maps.Keys(t.bridges)) {
		if parent := t.bridges[index].parent; parent >= index {
			findings = append(findings, fmt.Sprintf("controller %d stands on bus %d: QEMU makes it before its parent", index, parent))
		}
	}
	for _, p := range t.places() {
		if _, present := t.devices[place{p.bus, p.slot, 0}]; !present && !chipset(p) {
			findings = append(findings, fmt.Sprintf("%s at %s has no function 0 beside it: invisible in the guest", t.devices[p], p))
		}
	}
	return append(findings, t.busNumbers()...)
}

// chipset is the slot whose function 0, the ISA bridge of q35, is no device of
// the domain.
func chipset(p place) bool { return p.bus == 0 && p.slot == 0x1f }

// busNumbers counts: a root bus takes one number and one for each bridge below
// it, up to the number at which the next root bus starts.
func (t *topology) busNumbers() (findings []string) {
	starts := map[int]int{0: 0} // index of each root bus, to its bus number
	below := map[int]int{}
	for index, b := range t.bridges {
		switch b.model {
		case "pcie-expander-bus":
			starts[index] = b.busNr
		case "pcie-root":
		default:
			below[t.expander(index)]++
		}
	}
	for _, index := range slices.Sorted(maps.Keys(starts)) {
		limit := 256
		for other, start := range starts {
			if other != index && start >= starts[index] {
				limit = min(limit, start)
			}
		}
		if need := 1 + below[index]; need > limit-starts[index] {
			findings = append(findings, fmt.Sprintf("root bus of controller %d starts at bus number %d and needs %d, has %d",
				index, starts[index], need, limit-starts[index]))
		}
	}
	return findings
}

func (t *topology) places() []place {
	return slices.SortedFunc(maps.Keys(t.devices), func(a, b place) int {
		if a.bus != b.bus {
			return a.bus - b.bus
		}
		return (a.slot-b.slot)*8 + a.function - b.function
	})
}
