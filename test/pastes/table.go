package pastes

import (
	"fmt"
	"strings"
)

// Table says how a program writes a table of path types, a row and a column per device.
type Table struct {
	GPU, NIC  string // formats of names
	Linked    string // format of the word for links that are not PCI Express; "" shows paths only
	Far       string // the word for SYS
	Titles    []string
	Cell      func(string) string // how a word stands in its cell
	Separator string
	Prefix    string // of each line
	Corner    string // in the place of a name, of the header
	Legend    string
}

// The tables.
var (
	// TopoM is nvidia-smi topo -m of the drivers since 525: X with spaces around it, and an empty
	// cell before the last title (https://github.com/NVIDIA/nccl/issues/1453).
	TopoM = Table{
		GPU: "GPU%d", NIC: "NIC%d", Linked: "NV%d", Far: "SYS", Separator: "\t", Cell: aroundX,
		Titles: []string{"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}, Legend: legend,
	}

	// TopoMP is nvidia-smi topo -mp, which shows no NVLinks.
	TopoMP = Table{
		GPU: "GPU%d", NIC: "NIC%d", Far: "SYS", Separator: "\t", Cell: aroundX,
		Titles: []string{"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"},
	}

	// Topo450 is that of the drivers from 450 to 520.
	Topo450 = Table{
		GPU: "GPU%d", NIC: "mlx5_%d", Linked: "NV%d", Far: "SYS", Separator: "\t", Cell: aroundX,
		Titles: []string{"CPU Affinity", "NUMA Affinity"},
	}

	// Topo390 is that of drivers before 450, which know no NUMA nodes
	// (https://github.com/kubernetes/kubernetes/issues/53497).
	Topo390 = Table{
		GPU: "GPU%d", NIC: "mlx4_%d", Linked: "NV%d", Far: "SYS", Separator: "\t", Cell: aroundX,
		Titles: []string{"CPU Affinity"},
	}

	// Topo375 is that of drivers before 390, whose word for SYS is SOC.
	Topo375 = Table{
		GPU: "GPU%d", NIC: "mlx5_%d", Linked: "NV%d", Far: "SOC", Separator: "\t", Cell: aroundX,
		Titles: []string{"CPU Affinity"},
	}

	// MetaX is mx-smi topo -m: HT between GPUs.
	MetaX = Table{
		GPU: "GPU%d", NIC: "NIC%d", Linked: "HT", Far: "SYS", Separator: "        ",
		Titles: []string{"Node Affinity", "CPU Affinity"},
	}

	// Huawei is npu-smi info -t topo: HCCS between NPUs.
	Huawei = Table{
		GPU: "NPU%d", NIC: "NIC%d", Linked: "HCCS", Far: "SYS", Separator: "       ",
		Titles: []string{"CPU Affinity"},
	}

	// GPUStack is the table of gpustack-runtime.
	GPUStack = Table{
		GPU: "Device %d", NIC: "NIC%d", Linked: "NV%d", Far: "SYS", Separator: " | ",
		Prefix: "| ", Corner: "NVIDIA", Titles: []string{"CPU Affinity", "NUMA Affinity"},
	}
)

func aroundX(word string) string {
	if word == "X" {
		return " X "
	}
	return word
}

// legend begins what nvidia-smi explains after the table.
const legend = "\nLegend:\n\n  X    = Self\n  SYS  = between NUMA nodes (e.g., QPI/UPI)\n" +
	"  NODE = between host bridges\n  NV#  = a set of # NVLinks\n\nNIC Legend:\n\n"

// Print prints the table of a machine.
func (t Table) Print(m *Machine) string {
	all := m.devices()
	paths := m.paths(all)
	return t.write(m, func(i, j int) string {
		a, b := all[i], all[j]
		if links, isLinked := m.Linked(a.number, b.number); isLinked && a.IsGPU() && b.IsGPU() &&
			t.Linked != "" {
			word, _, hasCount := strings.Cut(t.Linked, "%d")
			if hasCount {
				word += fmt.Sprint(links.Count)
			}
			return word
		}

		return strings.Replace(paths(i, j).String(), "SYS", t.Far, 1)
	})
}

// write writes a table with the words of pairs.
func (t Table) write(m *Machine, word func(i, j int) string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString(t.Prefix + strings.Join(cells, t.Separator) + "\n")
	}

	head := []string{t.Corner}
	all := m.devices()
	for _, d := range all {
		head = append(head, t.name(d))
	}

	line(append(head, t.Titles...))
	for i, d := range all {
		cells := []string{t.name(d)}
		for j := range all {
			cell := "X"
			if i != j {
				cell = word(i, j)
			}
			if t.Cell != nil {
				cell = t.Cell(cell)
			}
			cells = append(cells, cell)
		}

		if d.IsGPU() {
			for _, title := range t.Titles {
				cells = append(cells, m.affinity(title, d))
			}
		}

		line(cells)
	}

	b.WriteString(t.Legend)
	for _, d := range all {
		if t.Legend != "" && d.IsNIC() {
			fmt.Fprintf(&b, "  NIC%d: %s\n", d.number, nicName(d.number))
		}
	}

	return b.String()
}

func (t Table) name(d device) string {
	if d.IsGPU() {
		return fmt.Sprintf(t.GPU, d.number)
	}
	return fmt.Sprintf(t.NIC, d.number)
}

// affinity returns what is under a title in the row of a GPU. In a guest without NUMA nodes
// the driver prints all CPUs and N/A. The memory of Grace's GPUs is NUMA nodes of their own
// (https://github.com/sgl-project/sglang/issues/11208).
func (m *Machine) affinity(title string, d device) string {
	switch title {
	case "CPU Affinity":
		id, isKnown := d.Node.Node()
		for _, n := range m.Nodes {
			if n.ID == id || !isKnown {
				return n.CPUs.String()
			}
		}
		return "0-7"

	case "GPU NUMA ID":
		if m.C2C {
			return fmt.Sprintf("\t%d", len(m.Nodes)+8*d.number)
		}
		return "\tN/A"
	}

	if m.C2C {
		return fmt.Sprintf("%s,%d-%d", d.Node, len(m.Nodes), len(m.Nodes)+15)
	}
	return node(d.Function, "N/A")
}

// Peers prints nvidia-smi topo -p2p r: whether GPUs reach each other's memory, in a word of the
// driver for all pairs.
func Peers(word string) func(*Machine) string {
	return func(m *Machine) string {
		t := Table{GPU: " GPU%d", Separator: "\t"}
		only := *m
		only.Functions = m.GPUs()
		return t.write(&only, func(int, int) string { return word }) +
			"\nLegend:\n\n  X    = Self\n  " + word + " = as it says\n"
	}
}
