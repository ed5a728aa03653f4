package recorded_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/recorded"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/corpus"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// TestMachines: the host of what each program prints of a machine, read back from its sysfs, has the
// record's GPUs and NICs with the record's path types and NUMA nodes.
func TestMachines(t *testing.T) {
	made := 0
	for i, name := range pastes.Names(t, "") {
		m := pastes.Load(t, name)
		for j, f := range pastes.Formats {
			if f.Suits(m) && expect.IsSampled(i+j, 6) {
				made += compareHost(t, name+", "+f.Name, []byte(f.Print(m)))
			}
		}
	}

	if least := expect.Count(100, 800); made < least {
		t.Errorf("%d hosts, of more than %d records", made, least)
	}
}

// TestCorpus: so has the host of each file that others made.
func TestCorpus(t *testing.T) {
	for name, file := range corpus.Files(t, "*") {
		compareHost(t, name, expect.File(t, file))
	}
}

// compareHost compares the host of a record with the record, and returns 1 if it has one.
func compareHost(t *testing.T, name string, text []byte) (made int) {
	t.Helper()
	record, _, err := paste.Read(text)
	if err != nil || !hasPaths(&record) {
		return 0 // pkg/tools/paste's tests say why
	}

	t.Run(name, func(t *testing.T) {
		h, err := recorded.New(&record)
		switch {
		case len(record.GPUs()) == 0:
			if err == nil || !strings.HasPrefix(err.Error(), "no GPU is recognised in it") {
				t.Errorf("error %v of a record without GPUs", err)
			}

		case err != nil && strings.HasPrefix(err.Error(), "no path to ") && len(record.Linked) > 0 ||
			err != nil && record.FunctionAt(record.GPUs()[0].Address).Root == "":
			// its links hide every path, or it shows none
		case err != nil && strings.HasSuffix(err.Error(), " is at no CPU"):
			// lstopo -v of a VM without NUMA nodes of a NIC on its root bus
		default:
			expect.NoError(t, err)
			compare(t, &record, h)
			made = 1
		}
	})

	return made
}

// TestRegisters: the host of what root's lspci or rdma_topo prints has the machine's IOMMU groups and
// registers, and no serial number. Of the root complex rdma_topo leaves out parts.
func TestRegisters(t *testing.T) {
	m := pastes.Parse(t, `cpus 0 0-3
pci0000:10 node=0
  0000:10:00.0 ids=8086:09a2 class=0x088000 acs=none
  0000:10:01.0 bridge ids=8086:352a acs=default atomics=routing,32,64 group=1
    0000:11:00.0 bridge ids=1000:c030 acs=none atomics=routing,blocked group=2
      0000:12:00.0 bridge ids=1000:c030 acs=default,dt atomics=routing group=3
        0000:13:00.0 nic ids=15b3:1021 ats=on atomics= group=10
      0000:12:01.0 bridge ids=1000:c030 acs=default,tb,ec atomics= group=4
        0000:14:00.0 gpu ids=10de:2330 ats=none atomics=32,128 group=11
`)
	registers := func(functions []topology.Function) (lines []string) {
		for _, d := range functions {
			if d.Class>>8 == 0x0880 {
				continue
			}

			var group int
			var acs topology.ACS
			var atomics topology.AtomicOps
			var blocks bool
			read(d.IOMMUGroup, &group)
			read(d.Details.ACS, &acs)
			read(d.Details.AtomicOps, &atomics)
			read(d.Details.BlocksAtomics, &blocks)
			lines = append(lines, fmt.Sprintf("%s group %d ACS %s/%s ATS %t AtomicOps %#x %t",
				d.Address, group, acs.Capable, acs.Control, d.Details.ATS, atomics, blocks))
		}
		return lines
	}

	for name, print := range map[string]func(*pastes.Machine) string{
		"lspci -vvv": pastes.LspciVerbose, "rdma_topo dump": pastes.RDMATopo,
	} {
		record, _, err := paste.Read([]byte(print(m)))
		expect.NoError(t, err)
		h, err := recorded.New(&record)
		expect.NoError(t, err)
		sysfs, err := host.Sysfs(&h.Host)
		expect.NoError(t, err)
		shown, _ := host.Read(sysfs, nil, host.All|host.Details)
		expect.Same(t, registers(m.Functions), registers(shown.Functions), "%s (-machine +host)", name)

		snapshot, _, err := host.TakeSnapshot(sysfs)
		expect.NoError(t, err)
		data, err := snapshot.Format("")
		expect.NoError(t, err)
		for _, serial := range []string{"S1234", "12-34-56", "9abc"} {
			if strings.Contains(string(data), serial) {
				t.Errorf("%s: the snapshot has the serial number %s", name, serial)
			}
		}
	}
}

// read reads what is known.
func read[T any](from, to *T) {
	if from != nil {
		*to = *from
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
