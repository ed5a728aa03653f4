package placement_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// unmanagedDevices is how many GPUs the host of TestUnmanagedControllers has, on
// four PCIe roots and two NUMA nodes.
const unmanagedDevices = 12

func unmanagedHost() string {
	host := "cpus 0 0-3\ncpus 1 4-7\n"
	for i := range unmanagedDevices {
		root := []string{"3a", "3a", "5d", "ae", "be"}[i%5]
		host += fmt.Sprintf("pci0000:%s/0000:%s:%02x.0/0000:%02x:00.0 node=%d group=%d "+
			"driver=vfio-pci\n",
			root, root, i, 0x10+i, i%5/3, 100+i)
	}

	return host
}

// unmanagedDomain writes a random domain: root ports, expander buses with and
// without bus number, cell and address, switches, holes in the indexes, and
// GPUs and NICs on some of the ports.
type unmanagedDomain struct {
	*rand.Rand
	controllers, devices strings.Builder
	gpus                 []int // not in the domain yet
	index, nics          int   // the last ones
}

func (d *unmanagedDomain) address(bus, slot int) string {
	return fmt.Sprintf(`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x%02x" `+
		`function="0x0"/>`, bus, slot)
}

func (d *unmanagedDomain) controller(model, target, address string) int {
	d.index++
	if d.IntN(8) == 0 {
		d.index += d.IntN(3)
	}

	fmt.Fprintf(&d.controllers, `<controller type="pci" index="%d" model="%s">%s%s</controller>`+
		"\n", d.index, model, target, address)
	return d.index
}

func (d *unmanagedDomain) gpu(address string) {
	if len(d.gpus) == 0 {
		return
	}

	fmt.Fprintf(&d.devices,
		`<hostdev type="pci" managed="no"><source>`+
			`<address type="pci" domain="0x0000" bus="0x%02x" slot="0x00" function="0x0"/>`+
			`</source>%s<alias name="ua-gpu-%d"/></hostdev>`+"\n",
		0x10+d.gpus[0], address, d.gpus[0])

	d.gpus = d.gpus[1:]
}

func (d *unmanagedDomain) nic(address string) {
	d.nics++
	fmt.Fprintf(&d.devices,
		`<interface type="ethernet"><target dev="tap%d"/><model type="virtio-non-transitional"/>`+
			`<mac address="02:00:00:00:00:%02x"/>%s</interface>`+"\n",
		d.nics, d.nics, address)
}

// occupy puts a GPU, a NIC or nothing on a port.
func (d *unmanagedDomain) occupy(port int) {
	switch d.IntN(3) {
	case 0:
		d.gpu(d.address(port, 0))
	case 1:
		d.nic(d.address(port, 0))
	}
}

func (d *unmanagedDomain) expander(slot, busNr, ports int) {
	target, address := "", ""
	if d.IntN(4) > 0 {
		target = fmt.Sprintf(` busNr="%d"`, busNr)
	}

	node := []string{"", "<node>0</node>", "<node>1</node>"}[d.IntN(3)]
	if d.IntN(2) == 0 {
		address = d.address(0, slot)
	}

	bus := d.controller("pcie-expander-bus", "<target"+target+">"+node+"</target>", address)
	for i := range ports {
		port := d.controller("pcie-root-port", "", d.address(bus, i))
		if d.IntN(4) > 0 {
			d.occupy(port)
			continue
		}

		upstream := d.controller("pcie-switch-upstream-port", "", d.address(port, 0))
		for j := range 1 + d.IntN(3) {
			d.occupy(d.controller("pcie-switch-downstream-port", "", d.address(upstream, j)))
		}
	}
}

func (d *unmanagedDomain) write() []byte {
	for i := range d.IntN(4) {
		address := ""
		if d.IntN(2) == 0 {
			address = d.address(0, 2+3*i+d.IntN(3))
		}
		d.occupy(d.controller("pcie-root-port", "", address))
	}

	busNr := 255
	for i := range d.IntN(4) {
		ports := d.IntN(5)
		busNr -= 1 + ports + d.IntN(20)
		d.expander(0x1c-i, busNr, ports)
	}

	if d.IntN(2) == 0 { // past index 31 the hook adds ports for hotplug
		for range 32 {
			d.controller("pcie-root-port", "", "")
		}
	}

	for range d.IntN(6) {
		d.gpu("")
	}

	for range d.IntN(3) {
		d.nic("")
	}

	return []byte(`<domain type="kvm"><name>vm</name><memory unit="GiB">4</memory><vcpu>4</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os>
<cpu mode="host-model"><numa><cell id="0" cpus="0-1" memory="2" unit="GiB"/><cell id="1" cpus="2-3" memory="2" unit="GiB"/></numa></cpu>
<numatune><memnode cellid="0" mode="strict" nodeset="0"/><memnode cellid="1" mode="strict" nodeset="1"/></numatune>
<devices>
` + d.devices.String() + d.controllers.String() + `<controller type="usb" index="0" model="none"/>
<memballoon model="none"/>
</devices>
</domain>
`)
}

// TestUnmanagedControllers checks that whatever controllers the domain has, a
// second call changes nothing, libvirt accepts the result where it accepts the
// domain itself, and a call after libvirt has given every device its address
// changes nothing either.
func TestUnmanagedControllers(t *testing.T) {
	host := expect.Host(t, unmanagedHost())
	var libvirt *oracle.Libvirt
	if oracle.Available() {
		libvirt = oracle.New(t)
	}

	for _, seed := range expect.Seeds(50, 400) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := unmanagedDomain{Rand: r, gpus: r.Perm(unmanagedDevices)}
		flags := map[policy.Key]string{
			policy.KeyLayout:       []string{"numa", "root", "switch", "mirror"}[r.IntN(4)],
			policy.KeyHotplugPorts: []string{"auto", "0", "20", "255"}[r.IntN(4)],
		}

		m := plan.Planner{Sysfs: host, Source: policy.Source{Flags: flags}}
		in := d.write()
		first := m.Read(plan.Request{Domain: in}).Plan()
		if first.Err != nil {
			t.Fatalf("seed %d: %v", seed, first.Err)
		}

		if second := m.Read(plan.Request{
			Domain: first.Domain,
		}).Plan(); !bytes.Equal(second.Domain, first.Domain) {
			t.Errorf("seed %d, %v: a second call changes the result\n%s\nof the domain\n%s", seed,
				flags, first.Domain, in)
		}

		if libvirt != nil && seed%10 == 0 {
			afterLibvirt(t, libvirt, m, in, first)
		}
	}
}

// afterLibvirt checks a result that libvirt has read and written again. It skips
// a domain with an unplaced device, since libvirt chooses that device's address.
func afterLibvirt(
	t *testing.T, libvirt *oracle.Libvirt, m plan.Planner, in []byte, first plan.Result,
) {
	t.Helper()
	for _, d := range first.Plan.Devices {
		if d.Outcome == placement.Unplaced {
			return
		}
	}

	readback, err := libvirt.Readback(first.Domain)
	if err != nil {
		if _, refused := libvirt.Readback(in); refused == nil {
			t.Errorf("libvirt accepts\n%s\nbut not the result\n%s\n%v", in, first.Domain, err)
		}
		return
	}

	after := m.Read(plan.Request{Domain: readback}).Plan()
	if after.Err != nil {
		t.Fatal(after.Err)
	}

	if c := after.Plan.Changes; len(c.Place)+len(c.AddControllers)+len(c.RemoveControllers) > 0 {
		t.Errorf("%v: a call after libvirt changes\n%s\nto\n%s", m.Flags, first.Domain,
			after.Domain)
	}
}

// TestBudgetOfUnplaced: a device for which numa has no place stays where it is, but not as aligned
// where the root bus has more buses than fit before its expander bus.
func TestBudgetOfUnplaced(t *testing.T) {
	d := unmanagedDomain{Rand: rand.New(rand.NewPCG(1, 0)), gpus: []int{0}}
	bus := d.controller("pcie-expander-bus", `<target busNr="3"/>`, "")
	d.gpu(d.address(d.controller("pcie-root-port", "", d.address(bus, 0)), 0))
	for range 4 {
		d.controller("pcie-root-port", "", "")
	}

	in := fmt.Sprintf(`<domain><os><type arch="x86_64" machine="q35">hvm</type></os>`+
		`<devices>%s%s</devices></domain>`, &d.devices, &d.controllers)
	m := plan.Planner{
		Sysfs:  expect.Host(t, unmanagedHost()),
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: "numa"}},
	}

	result := m.Read(plan.Request{Domain: []byte(in)}).Plan()
	expect.NoError(t, result.Err)
	gpu, isNamed := result.Plan.Devices[0], reasons.CodeBudget.IsIn(result.Plan.Warnings)
	if gpu.Reason != reasons.NoGuestNUMA || gpu.GuestPath[0] != bus || !isNamed {
		t.Errorf("%s is %s, %s, under %v, warnings %v", gpu.ID, gpu.Outcome, gpu.Reason,
			gpu.GuestPath, result.Plan.Warnings)
	}
}
