// Package pastes prints machines as programs do, and damages what they print as people do who paste
// it: for the readers of such text, whose tests read it back.
//
// A Machine is described by facts: a file of testdata/machines, or a few lines in a test, in the
// form of package hostfs. Formats are the programs, each with a printer and with what of a machine
// it shows. Damages are what happens to text on its way.
package pastes

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/hostfs"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// Machine is a machine as it is described.
type Machine struct {
	topology.Host
	Sysfs hostfs.Files

	// What no file of /sys says.
	CPU   string // vendor, family and model, as CPUID has them; "" where they are not known
	Mbps  int    // of each NIC; 0 where it is not known
	Links []Links
	C2C   bool // GPUs reach the CPU over NVLink-C2C, as Grace's do
}

// Links are links of GPUs that are not PCI Express.
type Links struct {
	Kind  string   // "nvlink" or "xgmi"
	Count int      // of each GPU or each pair; 0 says that GPUs have none
	Pairs [][2]int // of GPUs, in the order of their addresses; nil for links to switches
}

// Parse reads a description. These lines are its own, all others are those of package hostfs:
//
//	cpu GenuineIntel 6 143
//	mbps 400000
//	nvlink 18
//	xgmi 1 all
//	nvlink 2 0-3 1-2
//	c2c
//
// A number alone is that of links to switches; after it are pairs of GPUs, or all of them.
func Parse(tb testing.TB, text string) *Machine {
	tb.Helper()
	m := &Machine{}
	var sysfs strings.Builder
	var links [][]string
	for line := range strings.Lines(text) {
		switch fields := strings.Fields(line); {
		case len(fields) > 1 && fields[0] == "cpu":
			m.CPU = strings.Join(fields[1:], " ")
			sysfs.WriteString(cpuLine(tb, fields[1:]))
		case len(fields) == 2 && fields[0] == "mbps":
			m.Mbps = number(tb, fields[1])
		case len(fields) > 1 && (fields[0] == "nvlink" || fields[0] == "xgmi"):
			links = append(links, fields)
		case len(fields) == 1 && fields[0] == "c2c":
			m.C2C = true
		default:
			sysfs.WriteString(line)
			continue
		}

		sysfs.WriteString("\n") // so that errors have the number of the line
	}

	m.Sysfs = expect.Host(tb, sysfs.String())
	shown, problems := host.Read(m.Sysfs, nil, host.All|host.Details)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}

	m.Host = *shown
	for _, fields := range links {
		m.Links = append(m.Links, m.links(tb, fields))
	}

	return m
}

// cpuLine returns hostfs's line of a CPU: vendor in Linux's numbers
// (arch/x86/include/asm/processor.h), family and model.
func cpuLine(tb testing.TB, cpu []string) string {
	tb.Helper()
	vendors := map[string]int{"GenuineIntel": 0, "AuthenticAMD": topology.CPUVendorAMD}
	vendor, isX86 := vendors[cpu[0]]
	if !isX86 || len(cpu) != 3 {
		return ""
	}
	return fmt.Sprintf("cpu x86,ven%04Xfam%04Xmod%04X", vendor, number(tb, cpu[1]),
		number(tb, cpu[2]))
}

// links reads a line of links.
func (m *Machine) links(tb testing.TB, fields []string) Links {
	tb.Helper()
	l := Links{Kind: fields[0], Count: number(tb, fields[1])}
	if slices.Contains(fields[2:], "all") {
		for b := range m.GPUs() {
			for a := range b {
				l.Pairs = append(l.Pairs, [2]int{a, b})
			}
		}
		return l
	}

	for _, pair := range fields[2:] {
		a, b, _ := strings.Cut(pair, "-")
		l.Pairs = append(l.Pairs, [2]int{number(tb, a), number(tb, b)})
	}

	return l
}

func number(tb testing.TB, text string) int {
	tb.Helper()
	n, err := strconv.Atoi(text)
	expect.NoError(tb, err)
	return n
}

// directory has the descriptions.
func directory(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(expect.Root(tb), "testdata", "machines")
}

// Load reads the machine of a file of testdata/machines.
func Load(tb testing.TB, name string) *Machine {
	tb.Helper()
	return Parse(tb, Description(tb, name))
}

// Description returns the text of a file of testdata/machines.
func Description(tb testing.TB, name string) string {
	tb.Helper()
	return string(expect.File(tb, filepath.Join(directory(tb), name+".txt")))
}

// Names returns the names of the machines whose names begin with a word, "" for all.
func Names(tb testing.TB, word string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(directory(tb), word+"*.txt"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no machines: %v", err)
	}

	return topology.Map(files, func(file string) string {
		return strings.TrimSuffix(filepath.Base(file), ".txt")
	})
}

// Snapshot returns the machine of a snapshot of /sys.
func Snapshot(tb testing.TB, snapshot []byte) *Machine {
	tb.Helper()
	sysfs, err := host.ParseSnapshot(snapshot)
	expect.NoError(tb, err)
	shown, _ := host.Read(sysfs, nil, host.All|host.LinkSpeeds)
	return &Machine{Host: *shown}
}

// GPUs returns the GPUs for VMs, by address.
func (m *Machine) GPUs() []topology.Function { return m.which((*topology.Function).IsGPU) }

// NICs returns the NICs for VMs, by address.
func (m *Machine) NICs() []topology.Function { return m.which((*topology.Function).IsNIC) }

func (m *Machine) which(isKind func(*topology.Function) bool) []topology.Function {
	return slices.DeleteFunc(slices.Clone(m.Functions), func(d topology.Function) bool {
		return d.Driver != "vfio-pci" || !isKind(&d)
	})
}

// HasGPUs reports whether the machine has GPUs, and all are of a vendor.
func (m *Machine) HasGPUs(vendor uint16) bool {
	gpus := m.GPUs()
	return len(gpus) > 0 && !slices.ContainsFunc(gpus, func(d topology.Function) bool {
		return d.Vendor != vendor
	})
}

// Paths returns a function that tells the path type of two functions of some, by their numbers.
func (m *Machine) Paths(all []topology.Function) func(i, j int) topology.PathType {
	ids := topology.Map(all, func(d topology.Function) topology.DeviceID {
		return topology.PCIDevice(d.Address)
	})
	tree := m.Tree(ids)
	return func(i, j int) topology.PathType { return tree.PathType(ids[i], ids[j]) }
}

// Linked returns the links between two GPUs, by their numbers.
func (m *Machine) Linked(a, b int) (Links, bool) {
	pair := [2]int{min(a, b), max(a, b)}
	for _, l := range m.Links {
		if l.Count > 0 && (l.Pairs == nil || slices.Contains(l.Pairs, pair)) {
			return l, true
		}
	}

	return Links{}, false
}

// lines writes a line for each item.
func lines[T any](items []T, line func(i int, item T) string) string {
	var b strings.Builder
	for i, item := range items {
		b.WriteString(line(i, item))
	}

	return b.String()
}

// device is a GPU or a NIC with its number among its kind.
type device struct {
	topology.Function
	number int
}

// devices returns the GPUs and then the NICs.
func (m *Machine) devices() (all []device) {
	for _, kind := range [][]topology.Function{m.GPUs(), m.NICs()} {
		for i, d := range kind {
			all = append(all, device{d, i})
		}
	}

	return all
}

// paths is Paths for devices.
func (m *Machine) paths(all []device) func(i, j int) topology.PathType {
	return m.Paths(topology.Map(all, func(d device) topology.Function { return d.Function }))
}

// node returns the number of a function's NUMA node, or what stands for none.
func node(d topology.Function, none string) string {
	if _, isKnown := d.Node.Node(); isKnown {
		return d.Node.String()
	}
	return none
}

// short returns an address without PCI domain 0, as lspci writes it.
func short(a topology.Address) string { return strings.TrimPrefix(a.String(), "0000:") }

// nicName is what its driver calls a NIC.
func nicName(i int) string { return fmt.Sprintf("mlx5_%d", i) }

// speed returns the GT/s of a link, as the kernel writes them.
func speed(l *topology.Link) string { return fmt.Sprintf("%.1f", cmp.Or(l, &topology.Link{}).Speed) }
