package pastes

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// nvidiaBus returns an address as NVIDIA's tools write it.
func nvidiaBus(a topology.Address) string {
	return strings.ToUpper(fmt.Sprintf("%08x:%02x:%02x.%d", a.Domain, a.Bus, a.Device, a.Function))
}

// generation returns the generation of PCI Express of a link.
func generation(l *topology.Link) int {
	for i, speed := range []float64{2.5, 5, 8, 16, 32, 64} {
		if l != nil && l.Speed == speed {
			return i + 1
		}
	}
	return 0
}

// NVIDIAQuery prints nvidia-smi -q, as far as it tells of PCI.
func NVIDIAQuery(m *Machine) string {
	return lines(m.GPUs(), func(_ int, d topology.Function) string {
		return fmt.Sprintf("GPU %s\n    Product Name                 : NVIDIA GPU\n    PCI\n"+
			"        Device Id                : 0x%04X%04X\n        Bus Id                   : %[1]s\n"+
			"        GPU Link Info\n            PCIe Generation\n                Max      : %[4]d\n"+
			"                Current  : 1\n                Device Current : 1\n"+
			"            Link Width\n                Max      : %[5]dx\n"+
			"                Current  : 16x\n\n", nvidiaBus(d.Address), d.Device, d.Vendor,
			generation(d.MaxLink), width(d.MaxLink))
	})
}

// NVIDIATable prints the table of nvidia-smi.
func NVIDIATable(m *Machine) string {
	return lines(m.GPUs(), func(i int, d topology.Function) string {
		return fmt.Sprintf("|   %d  NVIDIA GPU          On  |   %s Off |                    0 |\n"+
			"| N/A   33C    P0    70W / 700W |       4MiB / 81559MiB |      0%%      Default |\n", i,
			nvidiaBus(d.Address))
	})
}

// NVIDIAList prints nvidia-smi --query-gpu=index,pci.bus_id --format=csv.
func NVIDIAList(m *Machine) string {
	return "index, pci.bus_id\n" + lines(m.GPUs(), func(i int, d topology.Function) string {
		return fmt.Sprintf("%d, %s\n", i, nvidiaBus(d.Address))
	})
}

// heading writes the heading of a part of rocm-smi.
func heading(title string) string {
	return strings.Repeat("=", 30) + " " + title + " " + strings.Repeat("=", 30) + "\n"
}

// pairTable writes a table with a word per pair of GPUs.
func pairTable(m *Machine, name func(int) string, self string, word func(i, j int) string) string {
	n := len(m.GPUs())
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}

	pad := func(text string) string { return fmt.Sprintf("%-13s", text) }
	head := pad("") + lines(all, func(i, _ int) string { return pad(name(i)) }) + "\n"
	return head + lines(all, func(i, _ int) string {
		return pad(name(i)) + lines(all, func(j, _ int) string {
			if i == j {
				return pad(self)
			}
			return pad(word(i, j))
		}) + "\n"
	})
}

// linkWord returns AMD's word for what is between two GPUs.
func (m *Machine) linkWord(i, j int) string {
	if _, isLinked := m.Linked(i, j); isLinked {
		return "XGMI"
	}
	return "PCIE"
}

// ROCmTopology prints rocm-smi --showtopo: hops, kinds of links, NUMA nodes.
func ROCmTopology(m *Machine) string {
	name := func(i int) string { return fmt.Sprintf("GPU%d", i) }
	return heading("ROCm System Management Interface") + heading("Hops between two GPUs") +
		pairTable(m, name, "0", func(int, int) string { return "1" }) + "\n" +
		heading("Link Type between two GPUs") + pairTable(m, name, "0", m.linkWord) + "\n" +
		ROCmNodes(m)
}

// ROCmNodes prints rocm-smi --showtoponuma.
func ROCmNodes(m *Machine) string {
	return heading("Numa Nodes") + lines(m.GPUs(), func(i int, d topology.Function) string {
		return fmt.Sprintf("GPU[%d]\t\t: (Topology) Numa Node: %s\n"+
			"GPU[%[1]d]\t\t: (Topology) Numa Affinity: %[2]s\n", i, node(d, "-1"))
	}) + heading("End of ROCm SMI Log")
}

// ROCmBus prints rocm-smi --showbus.
func ROCmBus(m *Machine) string {
	return heading("ROCm System Management Interface") + heading("PCI Bus ID") +
		lines(m.GPUs(), func(i int, d topology.Function) string {
			return fmt.Sprintf("GPU[%d]\t\t: PCI Bus: %s\n", i, strings.ToUpper(d.Address.String()))
		})
}

// AMDTopology prints amd-smi topology.
func AMDTopology(m *Machine) string {
	gpus := m.GPUs()
	name := func(i int) string { return gpus[i].Address.String() }
	return "HOPS TABLE:\n" + pairTable(m, name, "0", func(int, int) string { return "1" }) +
		"\nLINK TYPE TABLE:\n" + pairTable(m, name, "SELF", m.linkWord) + "\n"
}

// AMDList prints amd-smi list, with the nodes of amd-smi static --numa.
func AMDList(m *Machine) string {
	return lines(m.GPUs(), func(i int, d topology.Function) string {
		text := fmt.Sprintf("GPU: %d\n    BDF: %s\n", i, d.Address)
		if number := node(d, ""); number != "" {
			text += "    NUMA:\n        NODE: " + number + "\n        AFFINITY: 0\n"
		}
		return text + "\n"
	})
}

// IBDevNames prints ibdev2netdev: names alone.
func IBDevNames(m *Machine) string {
	return lines(m.NICs(), func(i int, _ topology.Function) string {
		return fmt.Sprintf("%s port 1 ==> ib%d (Up)\n", nicName(i), i)
	})
}

// IBDev prints ibdev2netdev -v: with addresses.
func IBDev(m *Machine) string {
	return lines(m.NICs(), func(i int, d topology.Function) string {
		return fmt.Sprintf("%s %s (MT4129 - MCX750500B) ConnectX-7 fw 28.39.1002 port 1 (ACTIVE) "+
			"==> ib%d (Up)\n", d.Address, nicName(i), i)
	})
}

// MST prints mst status -v: with addresses and nodes.
func MST(m *Machine) string {
	return "PCI devices:\n------------\nDEVICE_TYPE             MST                           PCI" +
		"       RDMA            NET            NUMA\n" +
		lines(m.NICs(), func(i int, d topology.Function) string {
			return fmt.Sprintf("ConnectX7(rev:0)        /dev/mst/mt4129_pciconf%d      %s   %s     "+
				"     net-ib%[1]d        %[4]s\n\n", i, m.slot(d.Address), nicName(i), node(d, "-1"))
		})
}

// IBLinks prints ls -l /sys/class/infiniband: names with the whole path.
func IBLinks(m *Machine) string {
	return lines(m.NICs(), func(i int, d topology.Function) string {
		path := d.Root.String() + "/"
		for _, bridge := range d.Bridges {
			path += bridge.String() + "/"
		}
		return fmt.Sprintf("lrwxrwxrwx 1 root root 0 Jan  1 00:00 %s -> ../../devices/%s%s/"+
			"infiniband/%[1]s\n", nicName(i), path, d.Address)
	})
}
