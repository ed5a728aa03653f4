package nccl

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// Models of CPUs in sysfs (devices/system/cpu/modalias): Sapphire Rapids and Genoa.
const (
	Intel = "x86,ven0000fam0006mod008F"
	AMD   = "x86,ven0002fam0019mod0011"
)

// Device ids of an H100 as SXM5 and as a PCIe card.
const (
	withNVLink    = "0x2330"
	withoutNVLink = "0x2331"
)

// RandomCase returns the VM of a random host. Its slots have GPUs and NICs by turns, with links
// that differ between seeds. The model of the CPUs is one of these here.
func RandomCase(tb testing.TB, seed uint64, model string) Case {
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

	sysfs := expect.Host(tb, b.text.String()+"cpu "+model+"\n")
	hardware := Hardware{CPU: intel, SM: 90, NVLinks: 18 * int(seed%2), Mbps: 400_000}
	return Case{Name: fmt.Sprintf("seed-%d", seed), Sysfs: sysfs,
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
