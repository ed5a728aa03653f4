package nccl

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// system is a topology file of NCCL or RCCL.
type system struct {
	CPUs []struct {
		Node   int    `xml:"numaid,attr"`
		Vendor string `xml:"vendor,attr"`
		PCI    []pci  `xml:"pci"`
	} `xml:"cpu"`
}

// pci is a switch, a GPU or a NIC. NCCL has one element for the upstream port of a switch and none
// for its downstream ports, and none for root ports.
type pci struct {
	Class  string `xml:"class,attr"`
	Vendor string `xml:"vendor,attr"`
	Device string `xml:"device,attr"`
	Speed  string `xml:"link_speed,attr"`
	Width  string `xml:"link_width,attr"`
	PCI    []pci  `xml:"pci"`
	GPU    *struct {
		NVLinks []struct{} `xml:"nvlink"`
		XGMI    []struct{} `xml:"xgmi"`
	} `xml:"gpu"`
	NIC *struct {
		Nets []struct {
			Mbps int `xml:"speed,attr"`
		} `xml:"net"`
	} `xml:"nic"`
}

func (p pci) isGPU() bool {
	return p.GPU != nil || strings.HasPrefix(p.Class, "0x03") || strings.HasPrefix(p.Class, "0x12")
}

func (p pci) isNIC() bool { return p.NIC != nil || strings.HasPrefix(p.Class, "0x02") }

// RecordedCases returns the machines of topology files that were published, each with a VM that has
// all its GPUs and NICs. GPUs are NVIDIA's H100 whatever they were: only the tree counts.
func RecordedCases(tb testing.TB) []Case {
	tb.Helper()
	recorded, err := filepath.Glob("testdata/recorded/*.xml")
	if err != nil || len(recorded) == 0 {
		tb.Fatalf("no topology files: %v", err)
	}

	all := make([]Case, len(recorded))
	for i, file := range recorded {
		var s system
		expect.NoError(tb, xml.Unmarshal(expect.File(tb, file), &s))
		all[i] = s.vm(tb, strings.TrimSuffix(filepath.Base(file), ".xml"))
	}

	return all
}

// vm returns the machine as a host, and its VM with a cell per node.
func (s system) vm(tb testing.TB, name string) Case {
	tb.Helper()
	b := hostBuilder{}
	nodes := map[int]bool{}
	for _, cpu := range s.CPUs {
		nodes[cpu.Node] = true
		for _, p := range cpu.PCI {
			b.root(p, cpu.Node)
		}
	}

	var numa matrix.GuestNUMA
	for node := range 16 {
		if nodes[node] {
			fmt.Fprintf(&b.text, "cpus %d %d-%d\n", node, 8*node, 8*node+7)
			numa = append(numa, []int{node})
		}
	}

	h := Hardware{CPU: intel, SM: 90, NVLinks: 12, Mbps: cmp.Or(b.mbps, 200_000)}
	if s.CPUs[0].Vendor == "AuthenticAMD" {
		h.CPU = genoa
	}

	if b.saysLinks && !b.hasLinks {
		h.NVLinks = 0
	}

	text := b.text.String()
	if h.NVLinks == 0 {
		text = strings.ReplaceAll(text, withNVLink, withoutNVLink)
	}

	return Case{Name: name, Sysfs: expect.Host(tb, text), Domain: matrix.Domain(numa, b.devices),
		Devices: b.devices, Hardware: h}
}

// Device ids of an H100 as SXM5 and as a PCIe card.
const (
	withNVLink    = "0x2330"
	withoutNVLink = "0x2331"
)

// hostBuilder writes a host in the format of package hostfs. Each tree under a CPU has a PCI domain
// and a host bridge of its own, and buses are numbered anew.
type hostBuilder struct {
	text    strings.Builder
	domain  int
	bus     int // the last one of the domain
	devices []string
	mbps    int

	saysLinks, hasLinks bool // the file lists links between GPUs; some GPU has one
}

func (b *hostBuilder) root(p pci, node int) {
	b.bus = 0
	port := fmt.Sprintf("pci%04x:00/%04x:00:01.0", b.domain, b.domain)
	b.function(port, "class=0x060400 driver=pcieport", p, node)
	b.under(port, p, node)
	b.domain++
}

// under writes what is plugged into a port.
func (b *hostBuilder) under(port string, p pci, node int) {
	b.bus++
	at := fmt.Sprintf("%s/%04x:%02x:00.0", port, b.domain, b.bus)
	switch {
	case p.isGPU():
		b.gpu(at, p, node)
	case p.isNIC():
		b.nic(at, p, node)
	default:
		b.function(at, "class=0x060400 driver=pcieport", p, node)
		b.bus++
		inner := b.bus
		for slot, child := range p.PCI {
			downstream := fmt.Sprintf("%s/%04x:%02x:%02x.0", at, b.domain, inner, slot)
			b.function(downstream, "class=0x060400 driver=pcieport", child, node)
			b.under(downstream, child, node)
		}
	}
}

func (b *hostBuilder) gpu(at string, p pci, node int) {
	b.function(at, "class=0x030200 vendor=0x10de device="+withNVLink+" driver=vfio-pci", p, node)
	b.devices = append(b.devices, filepath.Base(at))
	if p.GPU != nil {
		b.saysLinks = true
		b.hasLinks = b.hasLinks || len(p.GPU.NVLinks)+len(p.GPU.XGMI) > 0
	}
}

func (b *hostBuilder) nic(at string, p pci, node int) {
	b.function(at, "class=0x020700 vendor=0x15b3 device=0x1021 driver=vfio-pci", p, node)
	b.devices = append(b.devices, filepath.Base(at))
	if p.NIC == nil {
		return
	}

	for _, net := range p.NIC.Nets {
		b.mbps = max(b.mbps, min(net.Mbps, 400_000))
	}
}

// function writes a function with the link of an element, which is that of the port above it too.
func (b *hostBuilder) function(at, keys string, of pci, node int) {
	fmt.Fprintf(&b.text, "%s node=%d %s", at, node, keys)
	speed, _, _ := strings.Cut(of.Speed, " ")
	width, _ := strconv.Atoi(of.Width)
	if gigatransfers, err := strconv.ParseFloat(speed, 64); err == nil && width > 0 {
		fmt.Fprintf(&b.text, " maxlink=%.1fx%d", gigatransfers, width)
	}

	b.text.WriteString("\n")
}

// RandomCase returns the VM of a random host. Its slots have GPUs and NICs by turns, with links
// that differ between seeds.
func RandomCase(tb testing.TB, seed uint64) Case {
	tb.Helper()
	h := matrix.NewRandomHost(seed)
	b := classBuilder{link: [...]string{"16.0x16", "32.0x16", "32.0x8"}[seed%3],
		gpu: [...]string{
			withoutNVLink, withNVLink,
		}[seed%2], slots: map[string]string{}, bridges: map[string]bool{}}

	for line := range strings.Lines(h.Text) {
		b.line(line)
	}

	// The host's own code takes no PCI domain of five digits, as of VMD (src/graph/xml.cc,
	// checkBDFFormat).
	devices := slices.DeleteFunc(slices.Clone(h.Devices), func(id string) bool {
		return !strings.HasPrefix(id, "0000:") && !strings.HasPrefix(id, "0001:")
	})

	hardware := Hardware{CPU: intel, SM: 90, NVLinks: 18 * int(seed%2), Mbps: 400_000}
	return Case{Name: fmt.Sprintf("seed-%d", seed), Sysfs: expect.Host(tb, b.text.String()),
		IsCoarse: true,
		Domain:   matrix.Domain(h.NUMA, devices), Devices: devices, Hardware: hardware}
}

// classBuilder gives the devices of a random host classes, and all functions links.
type classBuilder struct {
	text      strings.Builder
	link, gpu string            // of each function; id of a GPU
	slots     map[string]string // what a slot has: its first function's keys
	bridges   map[string]bool
}

// line writes a line of the host with what it lacks.
func (b *classBuilder) line(line string) {
	at, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	if !strings.Contains(rest, "driver=vfio-pci") {
		b.text.WriteString(line)
		return
	}

	for above := filepath.Dir(at); strings.Contains(filepath.Base(above),
		"."); above = filepath.Dir(above) {
		if !b.bridges[above] {
			fmt.Fprintf(&b.text, "%s class=0x060400 driver=pcieport maxlink=%s\n", above, b.link)
			b.bridges[above] = true
		}
	}

	fmt.Fprintf(&b.text, "%s %s %s maxlink=%s\n", at, rest,
		b.keys(at, strings.Contains(rest, "physfn")), b.link)
}

// keys returns the class and the ids of a function. A slot has one GPU or NICs, since to NCCL its
// functions are one (src/graph/topo.cc, pciPathToInt64); a GPU's other functions are audio.
func (b *classBuilder) keys(at string, isVirtual bool) string {
	const nic, audio = "class=0x020700 vendor=0x15b3", "class=0x040300"
	slot, function, _ := strings.Cut(filepath.Base(at), ".")
	gpu := "class=0x030200 device=" + b.gpu
	switch had := b.slots[slot]; {
	case had == gpu:
		return audio
	case had == "" && function == "0" && !isVirtual && len(b.slots)%2 == 0:
		b.slots[slot] = gpu
	case had == "":
		b.slots[slot] = nic
	}

	return b.slots[slot]
}
