// Package machines has the hosts of testdata/hosts, each with a domain that takes all its
// devices, for tests of what is shown of a plan.
package machines

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/expect"
)

// The machine with eight GPUs and eight NICs, and the one with mediated devices.
const (
	HGX  = "x86-2n8g-hgx-h100"
	VGPU = "x86-2n2g-t4-vgpu"
)

// Names returns the names of the machines.
func Names(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(file(t, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts: %v", err)
	}

	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".txtar")
	}

	return names
}

// file returns the snapshot of a machine.
func file(t testing.TB, name string) string {
	return filepath.Join(expect.Root(t), "testdata", "hosts", name+".txtar")
}

// Layouts returns all layouts, those that move nothing included.
func Layouts() []string { return []string{"keep", "numa", "root", "switch", "mirror"} }

// Sysfs returns a machine by its name.
func Sysfs(t testing.TB, name string) fs.FS {
	t.Helper()
	data := expect.File(t, file(t, name))
	sysfs, err := host.ParseSnapshot(data)
	expect.NoError(t, err)
	return sysfs
}

// Domain returns a domain that takes every endpoint of a host: each function that is bound to
// vfio-pci, and each mediated device, with a cell for each node.
func Domain(t testing.TB, sysfs fs.FS) []byte {
	t.Helper()
	shown, problems := host.Read(sysfs, nil, host.All)
	if len(problems) > 0 {
		t.Fatal(problems)
	}

	var devices, cells, nodes strings.Builder
	numbers := map[string]int{}
	alias := func(kind string) string {
		numbers[kind]++
		return fmt.Sprintf("ua-%s-%s%d", map[bool]string{
			true: "gpu", false: "hostdevice",
		}[strings.Contains(kind, "gpu")], kind, numbers[kind])
	}

	for _, d := range shown.Functions {
		if d.IsBridge || d.Driver != "vfio-pci" {
			continue
		}

		kind := map[uint32]string{0x02: "nic", 0x03: "gpu"}[d.Class>>16]
		if kind == "" {
			kind = "other"
		}

		a := d.Address
		fmt.Fprintf(&devices,
			"    <hostdev mode='subsystem' type='pci' managed='no'><source>"+
				"<address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/></source>"+
				"<alias name='%s'/></hostdev>\n",
			a.Domain, a.Bus, a.Device, a.Function, alias(kind))
	}

	for _, m := range shown.MDEVs {
		fmt.Fprintf(&devices,
			"    <hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"+
				"<address uuid='%s'/></source><alias name='%s'/></hostdev>\n", m.UUID,
			alias("vgpu"))
	}

	for _, n := range shown.Nodes {
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

// OneGPU returns a domain with a GPU of machine HGX whose alias may be any text.
func OneGPU(t testing.TB, alias string) []byte {
	t.Helper()
	var escaped strings.Builder
	expect.NoError(t, xml.EscapeText(&escaped, []byte(alias)))
	return []byte(`<domain type='kvm'><name>one</name><os><type arch='x86_64' machine='q35'>hvm</type></os>
<cpu><numa><cell id='0' cpus='0' memory='1' unit='GiB'/></numa></cpu><numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune>
<devices><hostdev mode='subsystem' type='pci'><source><address domain='0' bus='0x1b' slot='0' function='0'/></source><alias name="` + escaped.String() + `"/></hostdev></devices></domain>`)
}

// Result returns what a layout makes of a domain on a host.
func Result(t testing.TB, sysfs fs.FS, domain []byte, layout string) plan.Result {
	t.Helper()
	m := plan.Planner{
		Sysfs: sysfs, Details: true, // as explain reads it
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: layout}},
	}

	result := m.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	return result
}

// Report returns the report of Result.
func Report(t testing.TB, sysfs fs.FS, domain []byte, layout string) report.Report {
	t.Helper()
	result := Result(t, sysfs, domain, layout)
	return report.New(result.Plan, result.Changed(), nil)
}

// Whole returns the report of a machine with all its devices in a layout.
func Whole(t testing.TB, name, layout string) report.Report {
	t.Helper()
	sysfs := Sysfs(t, name)
	return Report(t, sysfs, Domain(t, sysfs), layout)
}
