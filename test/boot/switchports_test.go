package boot

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// Kernel612Variable names the environment variable with the directory of Debian 13's unpacked
// kernel, which test/e2e/get-image makes. Boots with it are skipped without it.
const Kernel612Variable = "BOOT_KERNEL_612"

// TestSwitchPorts boots 8 switches with a GPU of 64 GiB and a NIC each, whose ports
// port-speed=host has replaced by QEMU's cxl-upstream and cxl-downstream: firmware and kernel
// find every device where it is planned, with its BARs, and show the host's link at each port. It
// takes QEMU 10.0, which `.ci/run boot` and `newest` name.
func TestSwitchPorts(t *testing.T) {
	t.Parallel()
	if os.Getenv(oracle.RootVariable) == "" {
		t.Skipf("%s is not set: QEMU 7.2 has no such ports", oracle.RootVariable)
	}

	for _, kernel := range []string{KernelVariable, Kernel612Variable} {
		t.Run(kernel, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, amd64(), kernel, "")
			m, links := switchesWithLinks(8)
			flags := append(m.flags(t, "mirror"), "--port-speed", "host")
			domain, plan := b.place(t, m, flags)
			args, err := arguments(b.libvirt, domain, m.instead, cellMemory)
			expect.NoError(t, err)

			for _, firmware := range []Firmware{SeaBIOS, OVMF} {
				t.Run(string(firmware), func(t *testing.T) {
					t.Parallel()
					guest, err := b.lab.Boot(t.Context(), append(args, "-cpu", amd+",phys-bits=46"),
						firmware)
					expect.NoError(t, err)
					checkLinks(t, guest, plan, m.instead.ids, links)
				})
			}
		})
	}
}

// checkLinks: every device is where it is planned, with a large BAR, under ports with these links.
func checkLinks(
	t *testing.T, guest *Guest, plan *Explained, ids string, links map[string][]topology.Link,
) {
	t.Helper()
	if n := assigned(guest, plan, ids); n != len(links) {
		t.Errorf("%d of %d devices are where planned with a BAR, the kernel's messages:\n%s", n,
			len(links), strings.Join(guest.Kernel, "\n"))
	}

	low, high := uint64(1)<<32, uint64(0)
	for _, d := range guest.Devices {
		for _, bar := range d.BARs {
			if bar.End < 1<<32 && bar.Start > 0 {
				low, high = min(low, bar.Start), max(high, bar.End)
			}
		}
	}

	t.Logf("BARs below 4 GiB are from %#x to %#x", low, high)

	seen := map[string][]topology.Link{}
	for id, at := range plan.Expectations() {
		seen[id] = linksAbove(t, guest, at.Address)
	}

	expect.Same(t, links, seen, "links of root, upstream and downstream port (-host +guest)")
}

// switchesWithLinks returns a machine with n PCIe roots, each with a switch with two devices, and
// the links of the root, upstream and downstream port above each device.
func switchesWithLinks(n int) (m *machine, links map[string][]topology.Link) {
	m, links = (&machine{}).with(largeBAR(36)), map[string][]topology.Link{}
	for i := range n {
		at := func(address string) string { return fmt.Sprintf("%04x:%s", i, address) }
		speed := []float64{32, 16, 8}[i%3]
		up := topology.Link{Speed: speed, Width: 16}
		path := []string{"pci" + at("00"), at("00:01.0"), at("01:00.0")}
		m.host = append(m.host,
			fmt.Sprintf("%s class=0x060400 maxlink=%.1fx%d", strings.Join(path, "/"), up.Speed,
				up.Width))

		for slot, down := range []topology.Link{{Speed: speed, Width: 16}, {Speed: 5, Width: 4}} {
			device := at(fmt.Sprintf("%02x:00.0", 3+slot))
			m.add(i%2, append(path[:3:3], at(fmt.Sprintf("02:%02x.0", slot)), device)...)
			m.host[len(m.host)-1] += fmt.Sprintf(" maxlink=%.1fx%d", down.Speed, down.Width)
			links[device] = []topology.Link{up, up, down}
		}
	}

	return m, links
}

// linksAbove returns the links of the ports above a device, by the guest's sysfs, root port first.
func linksAbove(t *testing.T, guest *Guest, address string) []topology.Link {
	t.Helper()
	files, err := host.ParseSnapshot(guest.Snapshot)
	expect.NoError(t, err)
	seen, _ := host.Read(files, nil, host.All|host.Details)
	a, err := topology.ParseAddress(address)
	expect.NoError(t, err)
	device := seen.FunctionAt(a)
	if device == nil {
		t.Fatalf("the guest has no device %s", address)
	}

	var links []topology.Link
	for _, bridge := range device.Bridges {
		link := seen.MaxLink(seen.FunctionAt(bridge))
		if link == nil {
			link = &topology.Link{}
		}
		links = append(links, *link)
	}

	return links
}
