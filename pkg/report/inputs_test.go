package report_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
)

// hostNames are the machines of testdata/hosts.
func hostNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/hosts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts: %v", err)
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".txtar")
	}
	return names
}

func readHost(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../testdata/hosts", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wholeHost is a domain that takes every endpoint of a host: each function that
// is bound to vfio-pci, and each mediated device, with a cell for each node.
func wholeHost(t testing.TB, snapshot []byte) []byte {
	t.Helper()
	fsys, err := host.ParseSnapshot(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return wholeSysfs(t, fsys)
}

func wholeSysfs(t testing.TB, fsys fs.FS) []byte {
	t.Helper()
	host, problems := host.Read(fsys, nil, host.Needs{All: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var devices, cells, nodes strings.Builder
	numbers := map[string]int{}
	alias := func(kind string) string {
		numbers[kind]++
		return fmt.Sprintf("ua-%s-%s%d", map[bool]string{true: "gpu", false: "hostdevice"}[strings.Contains(kind, "gpu")], kind, numbers[kind])
	}
	for _, d := range host.Devices {
		if d.IsBridge || d.Driver != "vfio-pci" {
			continue
		}
		kind := map[uint32]string{0x02: "nic", 0x03: "gpu"}[d.Class>>16]
		if kind == "" {
			kind = "other"
		}
		a := d.Address
		fmt.Fprintf(&devices, "    <hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/></source><alias name='%s'/></hostdev>\n",
			a.Domain, a.Bus, a.Device, a.Function, alias(kind))
	}
	for _, m := range host.MDEVs {
		fmt.Fprintf(&devices, "    <hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='%s'/></source><alias name='%s'/></hostdev>\n", m.UUID, alias("vgpu"))
	}
	for _, n := range host.Nodes {
		fmt.Fprintf(&cells, "<cell id='%d' cpus='%d' memory='1' unit='GiB'/>", n.ID, n.ID)
		fmt.Fprintf(&nodes, "<memnode cellid='%d' mode='strict' nodeset='%d'/>", n.ID, n.ID)
	}
	return fmt.Appendf(nil, `<domain type='kvm'>
  <name>whole</name>
  <memory unit='GiB'>2</memory>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu><numa>%s</numa></cpu>
  <numatune>%s</numatune>
  <devices>
%s    <memballoon model='none'/>
  </devices>
</domain>`, &cells, &nodes, &devices)
}

// reportOf is the report of what a layout makes of a domain on a host.
func reportOf(t testing.TB, snapshot, domainXML []byte, layout string) report.Report {
	t.Helper()
	result := resultOf(t, snapshot, domainXML, layout)
	return report.New(result.Plan, result.Changed(), nil)
}

func resultOf(t testing.TB, snapshot, domainXML []byte, layout string) plan.Result {
	t.Helper()
	fsys, err := host.ParseSnapshot(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return mutated(t, fsys, domainXML, layout)
}

func mutated(t testing.TB, sysfs fs.FS, domainXML []byte, layout string) plan.Result {
	t.Helper()
	m := plan.Planner{Sysfs: sysfs, Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: layout}}}
	result := m.Mutate(plan.Request{Domain: domainXML})
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result
}
