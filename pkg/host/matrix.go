package host

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// isHeader reports whether a line is the first row of nvidia-smi topo -m, with the names of
// columns: the row of GPU0 begins with "GPU0 X".
func isHeader(line string) bool {
	fields := strings.Fields(line)
	return len(fields) > 0 && fields[0] == "GPU0" && (len(fields) == 1 || fields[1] != "X")
}

// parseMatrix reads nvidia-smi topo -m or -mp: a row per device, its path types in the order of the
// columns, and of a GPU the affinity to CPUs and memory. Fields are found by whitespace, since tabs
// get lost where output is pasted. Drivers differ: older ones name a NIC mlx5_0 and have no "NUMA
// Affinity", newer ones have a legend of NICs and "GPU NUMA ID".
func parseMatrix(lines []string, header int) (Guest, error) {
	titles := lines[header]
	guest := Guest{
		Source:   FromNVIDIASMI,
		HasNodes: strings.Contains(titles, "NUMA Affinity"),
		Farthest: topology.SYS,
		types:    map[[2]int]topology.PathType{},
	}

	names, _, _ := strings.Cut(titles, "CPU") // after which there are affinities
	guest.Names = strings.Fields(names)
	if len(guest.Names) > maxDevices {
		return Guest{}, errTooMany
	}

	for _, name := range guest.Names {
		const nic, gpu = 0x020000, 0x030000
		d := topology.Device{Class: nic}
		if strings.HasPrefix(name, "GPU") {
			d.Class = gpu
		}

		guest.Devices = append(guest.Devices, d)
	}

	affinities := max(2, strings.Count(titles, "Affinity")+strings.Count(titles, "GPU NUMA ID"))
	for _, line := range lines[header+1:] {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}

		name, isLegend := strings.CutSuffix(fields[0], ":")
		switch row := slices.Index(guest.Names, name); {
		case row < 0:
		case isLegend: // the driver's name of a NIC
			guest.Names[row] = fields[1]
		default:
			if err := guest.addRow(row, fields[1:], affinities); err != nil {
				return Guest{}, fmt.Errorf("row %s: %w", name, err)
			}
		}
	}

	return guest, nil
}

// addRow reads the fields of a row after its name.
func (g *Guest) addRow(row int, fields []string, affinities int) error {
	if len(fields) < len(g.Devices) {
		return fmt.Errorf("%d of %d path types", len(fields), len(g.Devices))
	}

	for column, field := range fields[:len(g.Devices)] {
		between, isKnown := matrixTypes[field]
		switch {
		case isKnown:
			g.types[[2]int{row, column}] = between
		case row == column && field == topology.Self.String():
		case strings.HasPrefix(field, "NV"): // NVLink, which hides the path through PCI Express
		case peerStates[field]:
			return fmt.Errorf("%q is of nvidia-smi topo -p2p, which says what peers may do and "+
				"not where they are", field)

		default:
			return fmt.Errorf("invalid path type %q: nvidia-smi writes X, PIX, PXB, PHB, NODE, "+
				"SYS, or NV and a number", topology.Abridge(field))
		}
	}

	d, rest := &g.Devices[row], fields[len(g.Devices):]
	if d.IsNIC() {
		return nil
	}

	if len(rest) < affinities {
		g.HasNodes = false // a cell is empty, and which is not known
		return nil
	}

	// after the CPUs; "N/A" and several are none
	if node, err := onNode(rest[1]); err == nil && g.HasNodes {
		d.Node = node
	}

	return nil
}

// matrixTypes are the path types that nvidia-smi writes; drivers before 390 had SOC for SYS.
var matrixTypes = map[string]topology.PathType{
	"PIX": topology.PIX, "PXB": topology.PXB, "PHB": topology.PHB, "NODE": topology.NODE,
	"SYS": topology.SYS, "SOC": topology.SYS,
}

// peerStates are the words in a table of nvidia-smi topo -p2p. They say whether two GPUs reach each
// other, not how far apart they are.
var peerStates = map[string]bool{
	"OK": true, "CNS": true, "GNS": true, "TNS": true, "NS": true, "DR": true, "U": true,
}
