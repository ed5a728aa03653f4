package pastes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// pci is an element of NCCL's topology file, or a node of its graph: of a switch the upstream port,
// or a GPU or NIC.
type pci struct {
	device
	inside []*pci
}

// ncclTrees returns what NCCL finds at each NUMA node, "-1" for none. It goes up two levels at a
// time, from a device to the upstream port of its switch (src/graph/xml.cc,
// ncclTopoGetXmlFromSys).
func (m *Machine) ncclTrees() (nodes []string, at map[string][]*pci) {
	at = map[string][]*pci{}
	seen := map[topology.Address]*pci{}
	for _, d := range m.devices() {
		this := &pci{device: d}
		for k := len(d.Bridges) - 2; k >= 0 && this != nil; k -= 2 {
			bridge := d.Bridges[k]
			if above := seen[bridge]; above != nil {
				above.inside = append(above.inside, this)
				this = nil
				break
			}

			above := &pci{device: device{*m.FunctionAt(bridge), 0}, inside: []*pci{this}}
			seen[bridge], this = above, above
		}

		if this == nil {
			continue
		}

		name := node(d.Function, "-1")
		if at[name] == nil {
			nodes = append(nodes, name)
		}
		at[name] = append(at[name], this)
	}

	slices.Sort(nodes)
	return nodes, at
}

// NCCLFile prints the file of NCCL_TOPO_DUMP_FILE; RCCL's if the links are XGMI.
func NCCLFile(m *Machine) string {
	nodes, at := m.ncclTrees()
	vendor, family, model := "GenuineIntel", "6", "143"
	if fields := strings.Fields(m.CPU); len(fields) == 3 {
		vendor, family, model = fields[0], fields[1], fields[2]
	}

	return "<system version=\"1\">\n" + lines(nodes, func(_ int, name string) string {
		var cpus topology.IDs
		for _, n := range m.Nodes {
			if fmt.Sprint(n.ID) == name {
				cpus = n.CPUs
			}
		}

		return fmt.Sprintf("  <cpu host_hash=\"0x7f\" numaid=\"%s\" affinity=\"%s\" arch=\"x86_64\" "+
			"vendor=\"%s\" familyid=\"%s\" modelid=\"%s\">\n", name,
			strings.ReplaceAll(mask(cpus), "0x", ""), vendor, family, model) +
			m.elements(at[name], "    ") + "  </cpu>\n"
	}) + "</system>\n"
}

// elements writes elements of the file.
func (m *Machine) elements(all []*pci, indent string) string {
	return lines(all, func(_ int, p *pci) string {
		text := fmt.Sprintf("%s<pci busid=\"%s\" class=\"0x%06x\" vendor=\"0x%04x\" "+
			"device=\"0x%04x\" subsystem_vendor=\"0x0000\" subsystem_device=\"0x0000\" "+
			"link_speed=\"%s GT/s PCIe\" link_width=\"%d\">\n", indent, p.Address, p.Class,
			p.Vendor, p.Device, speed(p.MaxLink), width(p.MaxLink))
		in := indent + "  "
		switch {
		case p.IsBridge:
			text += m.elements(p.inside, in)
		case p.IsGPU():
			text += fmt.Sprintf("%s<gpu dev=\"%d\" sm=\"90\" rank=\"%[2]d\" gdr=\"1\">\n", in,
				p.number) + m.linkElements(p.number, in+"  ") + in + "</gpu>\n"
		default:
			text += fmt.Sprintf("%s<nic>\n%[1]s  <net name=\"%s\" dev=\"%d\" speed=\"%d\" "+
				"port=\"1\" gdr=\"1\"/>\n%[1]s</nic>\n", in, nicName(p.number), p.number,
				max(m.Mbps, 1000))
		}

		return text + indent + "</pci>\n"
	})
}

// linkElements writes the links of a GPU; an NVSwitch has another class than a GPU.
func (m *Machine) linkElements(gpu int, indent string) string {
	gpus := m.GPUs()
	element := func(kind string, target topology.Address, count int, class string) string {
		return fmt.Sprintf("%s<%s target=\"%s\" count=\"%d\" tclass=\"%s\"/>\n", indent, kind,
			target, count, class)
	}

	c2c := ""
	if m.C2C {
		c2c = indent + "<c2c bw=\"449000\" count=\"1\"/>\n"
	}

	return c2c + lines(m.Links, func(_ int, l Links) string {
		if l.Pairs == nil && l.Count > 0 {
			return element(l.Kind, topology.Address{Bus: 0xc7}, l.Count, "0x068000")
		}

		return lines(l.Pairs, func(_ int, pair [2]int) string {
			switch gpu {
			case pair[0]:
				return element(l.Kind, gpus[pair[1]].Address, l.Count, "0x030200")
			case pair[1]:
				return element(l.Kind, gpus[pair[0]].Address, l.Count, "0x030200")
			}
			return ""
		})
	})
}

func width(l *topology.Link) int {
	if l == nil {
		return 0
	}
	return l.Width
}

// bandwidth returns the GB/s that NCCL counts for a link (src/graph/topo.cc, kvDictPciGen).
func bandwidth(l *topology.Link) float64 {
	if l == nil {
		return 0
	}

	perGT := 0.75
	if l.Speed <= 5 {
		perGT = 0.6
	}
	return l.Speed * perGT * float64(l.Width) / 8
}

// id returns an address as NCCL writes it, as one number (src/misc/utils.cc, busIdToInt64).
func id(a topology.Address) string {
	return fmt.Sprintf("%x", uint64(a.Domain)<<20|uint64(a.Bus)<<12|uint64(a.Device)<<4|
		uint64(a.Function))
}

// NCCLLine writes a line of NCCL's log, of a process and its GPU.
func NCCLLine(said string) string { return log("%s", said) }

// log writes a line of NCCL's log, of a process and its GPU.
func log(format string, values ...any) string {
	return fmt.Sprintf("gpu-node:4254:4327 [0] NCCL INFO "+format+"\n", values...)
}

// NCCLLog prints the tree of NCCL's log (src/graph/topo.cc, ncclTopoPrintRec), of versions since
// 2.20 with the number of the machine before an address.
func NCCLLog(m *Machine) string {
	nodes, at := m.ncclTrees()
	return log("=== System : maxBw 48.0 totalBw 370.8 ===") +
		lines(nodes, func(_ int, name string) string {
			text := log("CPU/0-%s (1/1/2)", cpu(name))
			for _, other := range nodes {
				if other != name {
					text += log("+ SYS[10.0] - CPU/0-%s", cpu(other))
				}
			}
			return text + m.graph(at[name], 0)
		}) + log("==========================================")
}

// cpu returns the number of a NUMA node in 56 bits (src/include/graph.h, NCCL_TOPO_ID).
func cpu(node string) string {
	n, _ := strconv.Atoi(node)
	return fmt.Sprintf("%x", uint64(n)&(1<<56-1))
}

// graph writes nodes of the tree at a column.
func (m *Machine) graph(all []*pci, column int) string {
	return lines(all, func(_ int, p *pci) string {
		kind, more := "NIC", ""
		switch {
		case p.IsBridge:
			kind, more = "PCI", fmt.Sprintf(" (%04x%04x00000000)", p.Vendor, p.Device)
		case p.IsGPU():
			kind, more = "GPU", fmt.Sprintf(" (%d)", p.number)
		}

		link := fmt.Sprintf("+ PCI[%.1f] - ", bandwidth(p.MaxLink))
		in := column + len(link)
		text := log("%*s%s%s/0-%s%s", column, "", link, kind, id(p.Address), more) +
			m.graph(p.inside, in)
		if kind == "NIC" {
			text += log("%*s+ NET[25.0] - NET/%X (5a1/1/25.000000)", in, "", p.number)
		}

		gpus := m.GPUs()
		for other := range gpus {
			if l, isLinked := m.Linked(p.number, other); isLinked && kind == "GPU" &&
				other != p.number {
				word := map[string]string{"nvlink": "NVL", "xgmi": "XGMI"}[l.Kind]
				text += log("%*s+ %s[20.0] - GPU/0-%s", in, "", word, id(gpus[other].Address))
			}
		}

		if m.C2C && kind == "GPU" {
			text += log("%*s+ C2C[449.0] - CPU/0-%s", in, "", cpu(node(p.Function, "-1")))
		}
		return text
	})
}

// NCCLPaths returns a printer of NCCL's table of paths (src/graph/paths.cc, printNodePaths), a row
// per GPU and NIC; before 2.20 without the number of the machine. NCCL has one word for paths
// through one CPU.
func NCCLPaths(machine string) func(*Machine) string {
	return func(m *Machine) string {
		all := m.devices()
		name := func(d device) string {
			if d.IsGPU() {
				return "GPU/" + machine + id(d.Address)
			}
			return fmt.Sprintf("NET/%s%x", machine, d.number)
		}

		paths := m.paths(all)
		return lines(all, func(i int, d device) string {
			row := strings.Replace(name(d), machine, "", 1) + " :"
			for j, other := range all {
				word := strings.Replace(paths(i, j).String(), "NODE", "PHB", 1)
				_, isLinked := m.Linked(d.number, other.number)
				switch {
				case i == j:
					word = "LOC"
				case isLinked && d.IsGPU() && other.IsGPU():
					word = "NVL"
				}
				row += fmt.Sprintf("%s (2/24.0/%s) ", name(other), word)
			}

			return log("%sCPU/%s0 (2/24.0/PHB)", row, machine)
		})
	}
}

// NCCLInit prints the lines of NCCL's log before the graph: names of NICs, addresses of GPUs.
func NCCLInit(m *Machine) string {
	text := "NET/IB : Using"
	for i := range m.NICs() {
		text += fmt.Sprintf(" [%d]%s:1/IB", i, nicName(i))
	}

	gpus := m.GPUs()
	return log("%s [RO]; OOB eth0:192.0.2.1<0>", text) +
		lines(gpus, func(i int, d topology.Function) string {
			return log("comm 0x5581 rank %d nranks %d cudaDev %[1]d nvmlDev %[1]d busId %[3]s - Init "+
				"START", i, len(gpus), id(d.Address))
		})
}
