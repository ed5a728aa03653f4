package host

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// maxMatrix is far above the devices of a guest, and limits the square of them.
const maxMatrix = 1024

// isMatrix reports whether a text has the first row of nvidia-smi topo -m, before which a shell's
// prompt or other output may be.
func isMatrix(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), isHeader)
}

// isHeader reports whether a line has the names of columns: that of GPU0 itself begins with "GPU0 X".
func isHeader(line string) bool {
	fields := strings.Fields(line)
	return len(fields) > 0 && fields[0] == "GPU0" && (len(fields) == 1 || fields[1] != "X")
}

// withoutEscapes removes the escape sequences with which nvidia-smi underlines the first row.
func withoutEscapes(text string) string {
	return regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(text, "")
}

// parseMatrix reads nvidia-smi topo -m or -mp: a row per device, its path types in the order of the
// columns, and of a GPU the affinity to CPUs and memory. Fields are found by whitespace, since tabs
// get lost where output is pasted. Drivers differ: older ones name a NIC mlx5_0 and have no "NUMA
// Affinity", newer ones have a legend of NICs and "GPU NUMA ID".
func parseMatrix(text string) (Guest, error) {
	guest := Guest{Source: FromNVIDIASMI, types: map[[2]int]topology.PathType{}}
	affinities := 0 // columns after the path types
	for number, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if guest.Names == nil && isHeader(line) {
			guest.addColumns(fields)
			affinities = strings.Count(line, "Affinity") + strings.Count(line, "GPU NUMA ID")
			guest.Nodes = strings.Contains(line, "NUMA Affinity")
			if len(guest.Names) > maxMatrix {
				return Guest{}, fmt.Errorf("line %d, column %d: more than %[2]d devices", number+1, maxMatrix)
			}
			continue
		}
		if len(fields) < 2 {
			continue
		}
		name, isLegend := strings.CutSuffix(fields[0], ":")
		row := slices.Index(guest.Names, name)
		switch {
		case row < 0:
		case isLegend: // the driver's name of a NIC
			guest.Names[row] = fields[1]
		default:
			if column, err := guest.addRow(row, fields[1:], affinities); err != nil {
				return Guest{}, fmt.Errorf("line %d, column %d: %s: %w", number+1, column+1, name, err)
			}
		}
	}
	return guest, nil
}

// addColumns adds a device per name before the affinities: "GPU0 GPU1 NIC0 CPU Affinity ...".
func (g *Guest) addColumns(fields []string) {
	const nic, gpu = 0x020000, 0x030000
	for _, name := range fields {
		class := uint32(nic)
		switch {
		case name == "CPU":
			return
		case strings.HasPrefix(name, "GPU"):
			class = gpu
		}
		g.Devices, g.Names = append(g.Devices, topology.Device{Class: class}), append(g.Names, name)
	}
}

// addRow reads the fields of a row after its name. With an error it returns the number of the field.
func (g *Guest) addRow(row int, fields []string, affinities int) (int, error) {
	types := []topology.PathType{topology.PIX, topology.PXB, topology.PHB, topology.NODE, topology.SYS}
	for column := range g.Devices {
		if column == len(fields) {
			return column, fmt.Errorf("%d of %d path types", column, len(g.Devices))
		}
		field := fields[column]
		known := slices.IndexFunc(types, func(t topology.PathType) bool { return t.String() == field })
		switch {
		case known >= 0:
			g.types[[2]int{row, column}] = types[known]
		case row == column && field == topology.Self.String():
		case strings.HasPrefix(field, "NV"): // NVLink, which hides the path through PCI Express
		default:
			return column + 1, fmt.Errorf("invalid path type %q", topology.Abridge(field))
		}
	}
	rest := fields[len(g.Devices):]
	switch {
	case g.Devices[row].IsNIC():
	case len(rest) < max(affinities, 2):
		g.Nodes = false // a cell is empty, and which is not known
	default: // the CPUs, then the nodes; "N/A" and several are none
		if node, err := strconv.Atoi(rest[1]); err == nil && g.Nodes && node >= 0 && node <= maxNode {
			g.Devices[row].Node = topology.OnNode(topology.NodeID(node))
		}
	}
	return 0, nil
}
