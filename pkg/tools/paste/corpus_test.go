package paste_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/corpus"
	"hook-sidecar/test/expect"
)

// refusedOfCorpus are the files that cannot be read, and why.
var refusedOfCorpus = map[string]string{
	"lstopo/32em64t-2n8c2t-pci-wholeio.xml": "0000:04:00.0 appears twice",
	"sysfs/snap-nvidiagpunumanodes.txtar":   "snapshot: no PCI devices in it",
}

// pairedIn matches, per directory, what a file calls a GPU or a NIC: the classes of
// topology.Device.
var pairedIn = map[string]*regexp.Regexp{
	"crafted": regexp.MustCompile(`pci_type="0[23]|00\.0  .*(?:network|NVIDIA|Mellanox)| - (?:NIC|GPU)/|(?m:^GPU[0-9] +(?:0|XGMI) )`),
	"lstopo":  regexp.MustCompile(`type="PCIDev"[^>]* pci_type="(0[23]|1200)`),
	"nccl":    regexp.MustCompile(`<pci [^>]*class="(0x0[23]|0x1200)`),
	"topo":    regexp.MustCompile(`(?m)^[> \t]*(GPU[0-9]+|NIC[0-9]+|mlx[0-9_]+|PHB|eth[0-9]+|ib[0-9]+)[ \t]+(.*[ \t])?X([ \t]|$)`),
}

// TestCorpus reads what others made: every file is read, with as many GPUs and NICs as a search of
// its text finds, or refused for the reason that is expected.
func TestCorpus(t *testing.T) {
	for name, file := range corpus.Files(t, "*") {
		data := expect.File(t, file)
		m, problems, err := paste.Read(data)
		if want := refusedOfCorpus[name]; err != nil || want != "" {
			if err == nil || err.Error() != want {
				t.Errorf("%s: error %v, want %q", name, err, want)
			}
			continue
		}

		if len(problems) > 0 {
			t.Errorf("%s is read, with problems %v", name, problems)
		}

		if pattern := pairedIn[path.Dir(name)]; pattern != nil {
			got := topology.CountFunc(m.Functions, func(d topology.Function) bool {
				return d.IsGPUOrNIC()
			})
			if want := len(pattern.FindAll(data, -1)); got != want {
				t.Errorf("%s: %d GPUs and NICs, its text has %d", name, got, want)
			}
		}
	}
}

// TestManyDevices: a file of too many devices is refused before it takes long. 1,024 are read.
func TestManyDevices(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<system version="1"><cpu numaid="0">`)
	for i := range 1024 {
		fmt.Fprintf(&b, `<pci busid="0000:%02x:%02x.0" class="0x030200"/>`, i/32, i%32)
	}

	m, _, err := paste.Read([]byte(b.String() + "</cpu></system>"))
	expect.NoError(t, err)
	if len(m.Functions) != 1024 {
		t.Errorf("%d devices of 1024", len(m.Functions))
	}

	text := b.String() + strings.Repeat(`<pci busid="0000:ff:00.0" class="0x030200"/>`, 200_000)
	if _, _, err = paste.Read([]byte(text)); err == nil ||
		err.Error() != "line 1: more than 1024 devices" {
		t.Errorf("error %v", err)
	}
}
