package paste

import (
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words/lazyregexp"
)

// The lines of lspci -t (pciutils ls-tree.c). A bus is -[0000:17]- or -[17]-, or with a range
// [17-1b]; a function is 00.0 after a junction of lines.
var (
	treeRoot = lazyregexp.New(
		`^[ |]*(?:-\+-|-|\+-|\\-)\[([0-9a-f]{4,8}):([0-9a-f]{2})(?:-[0-9a-f]{2})?\]`)
	treeBranch = lazyregexp.New(
		`^([0-9a-f]{2}\.[0-7])(?:-\[(?:[0-9a-f]{4,8}:)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\])?`)
)

func isLspciTree(t text) bool {
	return anyLine(t, func(line string) bool {
		return strings.Contains(line, "-[") && treeRoot.MatchString(line)
	})
}

// branch is a bridge of the tree, whose bus the functions to the right of a column are on.
type branch struct {
	column  int
	domain  uint32
	bus     uint8
	bridges []topology.Address
	root    topology.PCIeRoot
}

// readLspciTree reads lspci -tv, with or without -nn. A line shows bridges and the first function
// under each in a row; further functions are on lines of their own, at the column of the first.
func readLspciTree(t text) (Machine, error) {
	m := Machine{Sources: []Source{Lspci}, Farthest: topology.NODE}
	var open []branch
	for _, line := range t.lines {
		line = strings.ReplaceAll(line, "\u00a0", " ")
		if root := treeRoot.FindStringSubmatchIndex(line); root != nil {
			domain, _ := strconv.ParseUint(line[root[2]:root[3]], 16, 32)
			bus, _ := strconv.ParseUint(line[root[4]:root[5]], 16, 8)
			name := "pci" + line[root[2]:root[5]]
			open = []branch{
				{column: root[1], domain: uint32(domain), bus: uint8(bus),
					root: topology.PCIeRoot(name)},
			}

			m.treeLine(line, root[1], &open)
		} else if len(open) > 0 && strings.ContainsAny(line, `+\`) {
			if start := strings.IndexAny(line, `+\`); strings.TrimLeft(line[:start], " |") == "" {
				m.treeLine(line, start, &open)
			}
		}

		if len(m.Functions) > 2*maxDevices {
			return Machine{}, errTooMany
		}
	}

	if !slices.ContainsFunc(m.Functions, func(d topology.Function) bool { return d.Vendor != 0 }) {
		m.note("the tree has no names: lspci -tvnn prints them with ids")
	}

	m, err := m.sorted()
	return m.withTree(), err
}

// treeLine reads the functions of a line from a column on.
func (m *Machine) treeLine(line string, from int, open *[]branch) {
	// A line goes on under the last bridge whose column is not right of its beginning; the root
	// is always above it.
	for len(*open) > 1 && (*open)[len(*open)-1].column > from {
		*open = (*open)[:len(*open)-1]
	}

	at := from
	for {
		for at < len(line) && strings.IndexByte(`-+\ `, line[at]) >= 0 {
			at++
		}

		found := treeBranch.FindStringSubmatchIndex(line[at:])
		if found == nil || len(*open) > maxDepth {
			return
		}

		on := (*open)[len(*open)-1]
		d := topology.Function{Root: on.root, Bridges: on.bridges}
		d.Address = treeAddress(on, line[at:at+4])
		m.lacksNode(d.Address)

		if found[4] < 0 { // a device, with its name to the end of the line
			d.Vendor, d.Device = idsIn(strings.TrimSpace(line[at+4:]))
			d.Class = classOfName(d.Vendor, line[at+4:])
			m.Functions = append(m.Functions, d)
			return
		}

		d.Class, d.IsBridge = topology.ClassBridge, true
		m.Functions = append(m.Functions, d)
		bus, _ := strconv.ParseUint(line[at+found[4]:at+found[5]], 16, 8)
		at += found[1]
		*open = append(*open, branch{column: at, domain: on.domain, bus: uint8(bus), root: on.root,
			bridges: append(slices.Clip(on.bridges), d.Address)})
	}
}

// treeAddress returns the address of a function such as "02.4" on a bus.
func treeAddress(on branch, function string) topology.Address {
	slot, _ := strconv.ParseUint(function[:2], 16, 5)
	return topology.Address{
		Domain: on.domain, Bus: on.bus, Device: uint8(slot), Function: function[3] - '0',
	}
}

// classOfName guesses the class of a device from its vendor and name, where the tree has nothing
// else.
func classOfName(vendor uint16, name string) uint32 {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}

	switch isNIC := has("Ethernet", "Infiniband", "ConnectX", "BlueField", "Virtual Function",
		"network", "Adapter Virtual"); {
	// Parts of a GPU or a board have the vendor of the GPU, and are told apart first.
	case vendor == topology.VendorNVIDIA &&
		has("Audio", "USB", "UCSI", "NVSwitch", "Bridge", "bridge"):
		return 0
	case vendor == topology.VendorNVIDIA:
		return topology.Class3D
	case vendor == topology.VendorAMDGPU &&
		(has("Instinct", "Aqua Vanjaram", "Aldebaran", "Arcturus", "Vega", "Navi", "Radeon", "MI2",
			"MI3") && !has("Audio", "Switch")):
		return topology.ClassAccelerator

	case vendor == topology.VendorMellanox && !has("bridge", "Bridge", "DMA"),
		vendor == topology.VendorAmazon && has("EFA", "Elastic Fabric"), isNIC:
		return topology.ClassEthernet
	}

	return 0
}
