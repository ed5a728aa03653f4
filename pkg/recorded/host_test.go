package recorded_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/recorded"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// withoutPaths are records without a path between any two GPUs: NVLink or a vendor's links hide it.
var withoutPaths = map[string]bool{
	"rocm.txt": true, "metax-54754140895.txt": true, "ml-engineering-README.md-23b0c002.txt": true,
}

// TestCorpus: the host of each record of testdata/corpus, read back from its sysfs, has the
// record's GPUs and NICs with the record's path types and NUMA nodes.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../../testdata/corpus/*/*")
	expect.NoError(t, err)
	made := 0
	for _, file := range files {
		record, _, err := paste.Read(expect.File(t, file))
		if err != nil || !hasPaths(&record) {
			continue // pkg/paste's tests say why
		}

		t.Run(filepath.Base(file), func(t *testing.T) {
			h, err := recorded.New(&record)
			if len(record.GPUs()) == 0 {
				if err == nil || !strings.HasPrefix(err.Error(), "no GPU is recognised in it") {
					t.Fatalf("error %v of a record without GPUs", err)
				}
				return
			}

			if err != nil && strings.HasPrefix(err.Error(), "no path to ") &&
				withoutPaths[filepath.Base(file)] {
				return
			}

			expect.NoError(t, err)
			compare(t, &record, h)
			made++
		})
	}

	if made < 50 {
		t.Errorf("%d hosts, of more than 50 records", made)
	}
}

// TestIDs: ids that a record lacks are those of a GPU with the links that it shows.
func TestIDs(t *testing.T) {
	const file = `<system version="1"><cpu numaid="0"><pci busid="0000:04:00.0" class="0x030200">` +
		`<gpu dev="0">LINK</gpu></pci></cpu></system>`

	for link, want := range map[string]string{
		"":                                "10de:2330", // not known, and most have NVLink
		`<nvlink target="0000:05:00.0"/>`: "10de:2330",
		`<xgmi target="0000:05:00.0"/>`:   "1002:74a1",
	} {
		record, _, err := paste.Read([]byte(strings.Replace(file, "LINK", link, 1)))
		expect.NoError(t, err)
		h, err := recorded.New(&record)
		expect.NoError(t, err)
		i := slices.IndexFunc(h.Functions, func(d topology.Function) bool { return d.IsGPU() })
		expect.Same(t, want, h.Functions[i].IDs(), "%s: ids (-want +got)", link)
	}
}

// hasPaths reports whether a record says how far any two of its GPUs and NICs are apart.
func hasPaths(record *paste.Machine) bool {
	all := append(record.GPUs(), record.NICs()...)
	for i, d := range all {
		for _, other := range all[:i] {
			if _, isKnown := record.PathType(d.Address, other.Address); isKnown {
				return true
			}
		}
	}

	return len(all) < 2
}

// compare reads a host back from its sysfs and compares its pairs with those of the record.
func compare(t *testing.T, record *paste.Machine, made recorded.Host) {
	t.Helper()
	sysfs, err := host.Sysfs(&made.Host)
	expect.NoError(t, err)
	shown, problems := host.Read(sysfs, nil, host.All)
	if len(problems) > 0 {
		t.Fatalf("problems %v", problems)
	}

	for _, were := range record.NUMA {
		for _, n := range shown.Nodes {
			if n.ID == were.ID && !were.CPUs.IsEmpty() && !n.CPUs.Equal(were.CPUs) {
				t.Errorf("node %d has CPUs %s, of the record %s", n.ID, n.CPUs, were.CPUs)
			}
		}
	}

	isKept := func(d topology.Function) bool { return d.Driver != "vfio-pci" }
	passed := slices.DeleteFunc(slices.Clone(shown.Functions), isKept)
	if want := len(record.GPUs()) + len(record.NICs()); len(passed) != want {
		t.Fatalf("%d GPUs and NICs, the record has %d", len(passed), want)
	}

	ids := topology.Map(passed, func(d topology.Function) topology.DeviceID {
		return topology.PCIDevice(d.Address)
	})

	tree := shown.Tree(ids)
	was := topology.Map(passed, func(d topology.Function) topology.Address {
		if old, isRenamed := made.Was[d.Address]; isRenamed {
			return old
		}
		return d.Address
	})

	for i, d := range passed {
		were := record.FunctionAt(was[i])
		if were == nil {
			t.Fatalf("the record has no %s", was[i])
		}

		if record.KnowsNode(were) && were.Node != (topology.Affinity{}) && d.Node != were.Node {
			t.Errorf("%s is on node %s, of the record %s", d.Address, d.Node, were.Node)
		}

		for j := range i {
			want, isKnown := record.PathType(was[i], was[j])
			got := tree.PathType(ids[i], ids[j])
			if isKnown && got != want && !(want >= record.Farthest && got >= record.Farthest) {
				t.Errorf("%s and %s: %s, of the record %s", was[i], was[j], got, want)
			}
		}
	}
}
