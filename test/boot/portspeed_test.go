package boot

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestPortSpeed boots two devices that have links of 32 GT/s x16 on the host. Without
// the key the guest's root ports have 16 GT/s x32, and NCCL takes the minimum with the
// device, 16 GT/s x16: half. With port-speed=host they have the device's, and it has the
// host's bandwidth. A stand-in has a link of its own; what NCCL reads of a device under VFIO is
// the hardware's (QEMU hw/vfio/pci.c, vfio_setup_pcie_cap). QEMU before 9.0 refuses to
// start.
func TestPortSpeed(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	host := topology.Link{Speed: 32, Width: 16}
	m := ports(2)
	for i := range m.host {
		m.host[i] += " maxlink=32.0x16"
	}

	for _, c := range []struct {
		value     string
		port      topology.Link
		bandwidth float64
	}{
		{"default", topology.Link{Speed: 16, Width: 32}, 256},
		{"host", topology.Link{Speed: 32, Width: 16}, 512},
	} {
		t.Run(c.value, func(t *testing.T) {
			t.Parallel()
			flags := append(m.flags(t, "root"), "--port-speed", c.value)
			domain, plan := b.place(t, m, flags)
			args, err := arguments(b.libvirt, domain, m.instead, cellMemory)
			expect.NoError(t, err)
			guest, err := b.lab.Boot(t.Context(), args, SeaBIOS)
			if c.value == "host" && qemuMajor(t, b.lab.system) < 9 {
				if err == nil || !strings.Contains(err.Error(), "does not accept value '32'") {
					t.Errorf("QEMU before 9.0 starts: %v", err)
				}
				return
			}

			expect.NoError(t, err)
			b.checkGuest(t, guest, plan, domain, flags)

			for id, at := range plan.Expectations() {
				above := linksAbove(t, guest, at.Address)
				port := above[len(above)-1]
				if port != c.port {
					t.Errorf("the port above %s has %s, want %s", id, port, c.port)
				}

				// src/graph/xml.cc, ncclTopoGetXmlFromSys: speed and width each as the minimum.
				seen := topology.Link{
					Speed: min(port.Speed, host.Speed), Width: min(port.Width, host.Width),
				}

				if seen.Speed*float64(seen.Width) != c.bandwidth {
					t.Errorf("NCCL sees %s, %v Gb/s, want %v", seen, seen.Speed*float64(seen.Width),
						c.bandwidth)
				}
			}
		})
	}
}

// qemuMajor returns the first number of QEMU's version.
func qemuMajor(t *testing.T, s System) int {
	t.Helper()
	qemu := s.qemu()
	out, err := exec.Command(qemu[0], append(qemu[1:], "--version")...).Output()
	expect.NoError(t, err)
	found := regexp.MustCompile(`version (\d+)`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no version in %s", out)
	}

	major, err := strconv.Atoi(string(found[1]))
	expect.NoError(t, err)
	return major
}
