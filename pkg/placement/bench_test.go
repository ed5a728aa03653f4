package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/hostfs"
	"hook-sidecar/test/matrix"
	"hook-sidecar/testdata"
)

// BenchmarkPlan is the part of a call that reads and writes nothing: parse, plan,
// apply, and parse the result again. The host is read before. "demo" is the demo's 8
// GPUs and 8 NICs; the others grow from 1 to 200 devices, two under each switch. The
// time per device should not grow with their number, nor with the size of the host.
func BenchmarkPlan(b *testing.B) {
	calls := []benchCall{demoCall(b)}
	for _, count := range []int{1, 16, 64, 200} {
		calls = append(calls, crowdCall(b, count))
	}
	calls = append(calls, onLargeHost(crowdCall(b, 16)))
	for _, layout := range []policy.Layout{policy.LayoutAuto, policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
		for _, call := range calls {
			b.Run(fmt.Sprintf("layout=%s/devices=%s", layout, call.name), func(b *testing.B) {
				b.ReportAllocs()
				call.in.Policy.Layout = layout
				var devices int
				for b.Loop() {
					devices = call.run(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*devices), "ns/device")
			})
		}
	}
}

// benchCall is a call without its reading of the host and of the VMI.
type benchCall struct {
	name string
	xml  []byte
	in   placement.Input // but for the domain
}

// run returns how many devices were planned.
func (c benchCall) run(b *testing.B) int {
	d, err := domain.Parse(c.xml)
	if err != nil {
		b.Fatal(err)
	}
	in := c.in
	in.Domain = d
	plan, err := placement.New(in)
	if err != nil {
		b.Fatal(err)
	}
	if changed, err := plan.Apply(); err != nil || len(changed) == 0 {
		b.Fatalf("nothing is changed, error %v", err)
	}
	return len(plan.Devices)
}

func demoCall(b *testing.B) benchCall {
	read := func(name string) []byte {
		data, err := testdata.Demo.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	sysfs, err := env.ParseSnapshot(read(testdata.DemoHost))
	if err != nil {
		b.Fatal(err)
	}
	call := benchCall{name: "demo", xml: read(testdata.DemoDomain)}
	d, err := domain.Parse(call.xml)
	if err != nil {
		b.Fatal(err)
	}
	call.in = defaults(b)
	call.in.Host, _ = env.ReadHost(sysfs, placement.Candidates(d, nil))
	if call.in.VMI, err = env.ParseVMI(read(testdata.DemoVMI)); err != nil {
		b.Fatal(err)
	}
	return call
}

func defaults(b *testing.B) placement.Input {
	wanted, _, err := policy.Resolve(policy.Source{})
	if err != nil {
		b.Fatal(err)
	}
	return placement.Input{Policy: wanted}
}

// crowdCall passes through count GPUs and NICs in turn, two under each switch. Two
// switches make a PCIe root and four roots a node, up to four nodes; where there are
// more devices, roots have more switches.
func crowdCall(b *testing.B, count int) benchCall {
	const roots, nodes = 16, 4
	host := strings.Builder{}
	for node := range nodes {
		fmt.Fprintf(&host, "cpus %d %d-%d\n", node, 8*node, 8*node+7)
	}
	var devices []string
	for i := range count {
		half, root := i/2, i/4%roots // two devices per switch, two switches in turn per root
		port := fmt.Sprintf("pci0000:%02x/0000:%02x:%02x.0", root, root, 1+half%2+half/(2*roots)*2)
		up, down := 0x10+half, i%2
		upstream := fmt.Sprintf("%s/0001:%02x:00.0/0002:%02x:%02x.0", port, up, up, down)
		id := fmt.Sprintf("0003:%02x:00.0", i)
		class := []string{"0x030200", "0x020000"}[i%2]
		fmt.Fprintf(&host, "%s/%s node=%d group=%d driver=vfio-pci class=%s\n", upstream, id, root/(roots/nodes), i, class)
		devices = append(devices, id)
	}
	sysfs, err := hostfs.Parse(host.String())
	if err != nil {
		b.Fatal(err)
	}
	call := benchCall{name: fmt.Sprint(count), xml: matrix.Domain(matrix.GuestNUMA{{0}, {1}, {2}, {3}}, devices), in: defaults(b)}
	d, err := domain.Parse(call.xml)
	if err != nil {
		b.Fatal(err)
	}
	call.in.Host, _ = env.ReadHost(sysfs, placement.Candidates(d, nil))
	return call
}

// onLargeHost adds 4,096 functions to the host that have nothing to do with the
// devices: virtual functions of a device that is not passed through.
func onLargeHost(call benchCall) benchCall {
	host := *call.in.Host
	host.Devices = slices.Clone(host.Devices)
	parent := topology.Address{Domain: 0x10}
	for i := range 4096 {
		f := topology.Device{Address: topology.Address{Domain: 0x10, Bus: uint8(1 + i/256), Device: uint8(i / 8 % 32), Function: uint8(i % 8)}}
		f.Root, f.PhysFn, f.IOMMUGroup, f.Driver = "pci0010:00", &parent, new(1000+i), "iavf"
		host.Devices = append(host.Devices, f)
	}
	call.in.Host, call.name = &host, call.name+"-of-4112"
	return call
}
