package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// machine is a host, and the devices of it that the domain gets.
type machine struct {
	host     []string // lines of package hostfs
	hostdevs []string // host addresses
	instead  standIn
	aarch64  bool // the guest is a virt machine

	controllers string   // XML of the domain's own
	arguments   []string // of QEMU, in qemu:commandline
}

// with replaces the stand-ins, which are nvme otherwise.
func (m *machine) with(instead standIn) *machine {
	m.instead = instead
	return m
}

// add adds a device under bridges of the host; the path begins with the root bus.
func (m *machine) add(node int, path ...string) {
	m.host = append(m.host,
		fmt.Sprintf("%s node=%d driver=vfio-pci", strings.Join(path, "/"), node))
	m.hostdevs = append(m.hostdevs, path[len(path)-1])
}

// domain returns a domain with two guest cells, each for the host's node of that number, the
// hostdevs, a NIC, a disk and an entropy source.
func (m *machine) domain() []byte {
	var hostdevs strings.Builder
	for i, id := range m.hostdevs {
		fmt.Fprintf(&hostdevs,
			`<hostdev mode='subsystem' type='pci' managed='no'><source>`+
				`<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/></source>`+
				`<alias name='ua-hostdevice-%d'/></hostdev>`,
			id[:4], id[5:7], id[8:10], id[11:], i)
	}

	kind := `<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/><apic/>` +
		`</features>`
	if m.aarch64 {
		kind = `<os><type arch='aarch64' machine='virt'>hvm</type><loader readonly='yes' type='pflash'>/usr/share/AAVMF/AAVMF_CODE.fd</loader></os>
<features><acpi/><gic version='3'/></features>`
	}

	return []byte(`<domain type='qemu'><name>boot</name><memory unit='MiB'>512</memory><vcpu>2</vcpu>
` + kind + `
<cpu><numa><cell id='0' cpus='0' memory='256' unit='MiB'/><cell id='1' cpus='1' memory='256' unit='MiB'/></numa></cpu>
<numatune><memnode cellid='0' mode='strict' nodeset='0'/><memnode cellid='1' mode='strict' nodeset='1'/></numatune>
<devices><controller type='usb' model='none'/>` + m.controllers + `
<disk type='block' device='disk'><source dev='/dev/null'/><target dev='vda' bus='virtio'/></disk>
<interface type='ethernet'><mac address='02:1f:4c:00:00:01'/><model type='virtio'/></interface>
` + hostdevs.String() + `
<memballoon model='none'/><rng model='virtio'><backend model='random'>/dev/urandom</backend></rng></devices>` + commandLine(m.arguments) + `</domain>`)
}

func (m *machine) flags(t *testing.T, layout string) []string {
	t.Helper()
	host, err := snapshot(strings.Join(append([]string{"cpus 0 0-3", "cpus 1 4-7"}, m.host...),
		"\n"))
	expect.NoError(t, err)
	file := filepath.Join(t.TempDir(), "host.txtar")
	expect.NoError(t, os.WriteFile(file, withIDs(host, m.hostdevs, m.instead.ids), 0o644))
	return []string{"--sysfs", file, "--layout", layout, "--strict"}
}

// ports returns a machine with n devices, each under a PCIe root of its own and every second on the
// second node.
func ports(n int) *machine { return onNodes(n, func(i int) int { return i % 2 }) }

// crowd returns a machine with one device in eight on the second node. From 38 devices on, the
// first node has more of them than an expander bus has slots, 32.
func crowd(n int) *machine {
	return onNodes(n, func(i int) int {
		if i%8 == 0 {
			return 1
		}
		return 0
	})
}

func onNodes(n int, node func(i int) int) *machine {
	m := &machine{instead: nvme()}
	for i := range n {
		m.add(node(i), fmt.Sprintf("pci%04x:00", i), fmt.Sprintf("%04x:00:01.0", i),
			fmt.Sprintf("%04x:01:00.0", i))
	}

	return m
}

// switches returns a machine with n PCIe roots, each with a switch under a switch and devices under
// both: every path type but PHB.
func switches(n int) *machine {
	m := &machine{instead: nvme()}
	for i := range n {
		at := func(address string) string { return fmt.Sprintf("%04x:%s", i, address) }
		root := []string{"pci" + at("00"), at("00:01.0"), at("01:00.0")}
		m.add(i%2, append(root[:3:3], at("02:00.0"), at("03:00.0"))...)
		m.add(i%2,
			append(root[:3:3], at("02:01.0"), at("04:00.0"), at("05:00.0"), at("06:00.0"))...)
		m.add(i%2,
			append(root[:3:3], at("02:01.0"), at("04:00.0"), at("05:01.0"), at("07:00.0"))...)
	}

	return m
}

// eights returns a machine with n devices, eight under a switch on each PCIe root.
func eights(n int) *machine {
	m := &machine{instead: nvme()}
	for i := range n {
		at := func(address string) string { return fmt.Sprintf("%04x:%s", i/8, address) }
		m.add(i/8%2, "pci"+at("00"), at("00:01.0"), at("01:00.0"),
			at(fmt.Sprintf("02:%02x.0", i%8)), at(fmt.Sprintf("%02x:00.0", 3+i%8)))
	}

	return m
}

// functions returns a machine with two devices with several functions, which the domain names in
// any order, and one whose function 0 is not in the domain.
func functions() *machine {
	m := &machine{instead: nvme()}
	for _, function := range []string{"01:00.1", "01:00.3", "01:00.0"} {
		m.add(0, "pci0000:00", "0000:00:01.0", "0000:"+function)
	}

	for _, function := range []string{"41:00.1", "41:00.2"} {
		m.add(1, "pci0000:40", "0000:40:01.0", "0000:"+function)
	}

	for _, function := range []string{"42:00.0", "42:00.1"} {
		m.add(1, "pci0000:40", "0000:40:02.0", "0000:"+function)
	}

	return m
}
