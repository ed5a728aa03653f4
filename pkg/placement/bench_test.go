package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/testdata"
)

// BenchmarkPlan measures the part of a call that reads and writes nothing: parse, plan,
// apply, and parse the result again. The host is read before. "demo" is the demo's 8
// GPUs and 8 NICs; the others grow from 1 to 200 devices, two under each switch;
// "again" is a later call of the same boot. The time per device should not grow with
// their number, nor with the size of the host.
func BenchmarkPlan(b *testing.B) {
	calls := []benchCall{demoCall(b)}
	for _, count := range []int{1, 16, 64, 200} {
		calls = append(calls, crowdCall(b, count))
	}

	calls = append(calls, onLargeHost(crowdCall(b, 16)))
	for _, layout := range []policy.Layout{
		policy.LayoutAuto, policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror,
	} {
		for _, call := range calls {
			call.in.Policy.Layout = layout
			call.bench(b, fmt.Sprintf("layout=%s/devices=%s", layout, call.name))
			call.again(b).bench(b, fmt.Sprintf("layout=%s/devices=%s/again", layout, call.name))
		}
	}
}

// benchCall is a call without its reading of the host and of the VMI.
type benchCall struct {
	name string
	xml  []byte
	in   placement.Input // but for the domain
}

// bench reports CPU time beside the time that has passed, since that is what a
// container's limit counts.
func (c benchCall) bench(b *testing.B, name string) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		devices, before := 0, cpuTime(b)
		for b.Loop() {
			plan, _ := c.run(b)
			devices = len(plan.Devices)
		}

		cpu := float64(cpuTime(b)-before) / float64(b.N)
		b.ReportMetric(cpu, "cpu-ns/op")
		b.ReportMetric(cpu/float64(devices), "cpu-ns/device")
	})
}

func cpuTime(b *testing.B) int64 {
	var usage syscall.Rusage
	expect.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func (c benchCall) run(b *testing.B) (*placement.Plan, []byte) {
	d, err := domain.Parse(c.xml)
	expect.NoError(b, err)
	in := c.in
	in.Domain = d
	plan, err := placement.New(in)
	expect.NoError(b, err)
	changed, err := plan.Apply()
	expect.NoError(b, err)
	return plan, changed
}

// again returns the call with the domain that libvirt makes of the result.
func (c benchCall) again(b *testing.B) benchCall {
	if _, changed := c.run(b); changed != nil {
		c.xml = changed
	}

	var err error
	if c.xml, err = oracle.New(b).Readback(c.xml); err != nil {
		b.Fatal(err)
	}

	return c
}

func demoCall(b *testing.B) benchCall {
	read := func(name string) []byte {
		data, err := testdata.Demo.ReadFile(name)
		expect.NoError(b, err)
		return data
	}

	sysfs, err := host.ParseSnapshot(read(testdata.DemoHost))
	expect.NoError(b, err)
	call := benchCall{name: "demo", xml: read(testdata.DemoDomain)}
	d, err := domain.Parse(call.xml)
	expect.NoError(b, err)
	call.in = defaults(b)
	call.in.Host, _ = host.Read(sysfs, placement.Candidates(d, nil), host.Related)
	if call.in.VMI, err = kubevirt.ParseVMI(read(testdata.DemoVMI)); err != nil {
		b.Fatal(err)
	}

	return call
}

func defaults(b *testing.B) placement.Input {
	wanted, _, err := policy.Resolve(policy.Source{})
	expect.NoError(b, err)
	return placement.Input{Policy: wanted}
}

// crowdCall passes through a crowd of devices, which the VMI names and a variable lists.
func crowdCall(b *testing.B, count int) benchCall {
	text, devices := crowd(count)
	sysfs := expect.Host(b, text)
	call := benchCall{
		name: fmt.Sprint(count),
		xml:  matrix.Domain(matrix.GuestNUMA{{0}, {1}, {2}, {3}}, devices),
		in:   defaults(b),
	}

	d, err := domain.Parse(call.xml)
	expect.NoError(b, err)
	call.in.VMI = &kubevirt.VMI{}

	for i := range devices {
		call.in.VMI.HostDevices = append(call.in.VMI.HostDevices, kubevirt.Request{
			Name: fmt.Sprint(i), Resource: "example.com/device",
		})
	}

	call.in.Variables, _ = env.ParseVariables([]string{
		"PCI_RESOURCE_EXAMPLE_COM_DEVICE=" + strings.Join(devices, ","),
	})

	call.in.Host, _ = host.Read(sysfs, placement.Candidates(d, nil), host.Related)
	return call
}

// crowd returns a host in the format of package hostfs with count GPUs and NICs in turn, two under
// each switch. Two switches make a PCIe root and four roots a node, up to four nodes; where there
// are more devices, roots have more switches.
func crowd(count int) (host string, devices []string) {
	const roots, nodes = 16, 4
	text := strings.Builder{}
	for node := range nodes {
		fmt.Fprintf(&text, "cpus %d %d-%d\n", node, 8*node, 8*node+7)
	}

	for i := range count {
		half, root := i/2, i/4%roots
		port := fmt.Sprintf("pci0000:%02x/0000:%02x:%02x.0", root, root, 1+half%2+half/(2*roots)*2)
		id := fmt.Sprintf("0003:%02x:00.0", i)
		class := []string{"0x030200", "0x020000"}[i%2]
		fmt.Fprintf(&text,
			"%s/0001:%02x:00.0/0002:%02x:%02x.0/%s node=%d group=%d driver=vfio-pci class=%s\n",
			port, half, half, i%2, id, root*nodes/roots, i, class)

		devices = append(devices, id)
	}

	return text.String(), devices
}

// onLargeHost adds 4,096 functions to the host that have nothing to do with the
// devices: virtual functions of a device that is not passed through.
func onLargeHost(call benchCall) benchCall {
	host := *call.in.Host
	host.Functions = slices.Clone(host.Functions)
	parent := topology.Address{Domain: 0x10}
	for i := range 4096 {
		f := topology.Function{
			Address: topology.Address{
				Domain:   0x10,
				Bus:      uint8(1 + i/256),
				Device:   uint8(i / 8 % 32),
				Function: uint8(i % 8),
			},
		}

		f.Root, f.PhysFn, f.IOMMUGroup, f.Driver = "pci0010:00", &parent, new(1000+i), "iavf"
		host.Functions = append(host.Functions, f)
	}

	call.in.Host, call.name = &host, call.name+"-of-4112"
	return call
}
