package boot

import (
	"os"
	"slices"
	"strconv"
	"testing"
)

// TestIOSpace boots devices with an I/O BAR: OVMF has room for 9 ports with one,
// and each device beyond loses its memory, too. SeaBIOS has room for 14; with 15 it
// stops, which is not tried since it looks like a guest that hangs. doctor's check
// io-space reports it.
func TestIOSpace(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	type ioCase struct {
		layout   string
		devices  int
		firmware Firmware
		lost     int
		status   string
	}

	cases := []ioCase{{"root", 10, OVMF, 1, "FAIL"}}
	if os.Getenv(SizesVariable) == "1" {
		// With mirror and 14 devices 5 were lost before the guest had the host's order, whose
		// expander buses OVMF asks the other way round. Measured, not explained.
		cases = append(cases,
			ioCase{"root", 14, SeaBIOS, 0, "PASS"},
			ioCase{"numa", 9, OVMF, 0, "PASS"},
			ioCase{"mirror", 14, OVMF, 14, "FAIL"},
			ioCase{"mirror", 9, OVMFNewest, 0, "PASS"},
			ioCase{"root", 11, OVMFNewest, 2, "FAIL"},
		)
	}

	for _, c := range cases {
		t.Run(c.layout+"/"+strconv.Itoa(c.devices)+"/"+string(c.firmware), func(t *testing.T) {
			t.Parallel()
			c.firmware.require(t)
			m := ports(c.devices)
			if c.layout == "mirror" {
				m = eights(c.devices)
			}

			m = m.with(withIO())
			for i := range m.host {
				m.host[i] += " io"
			}

			flags := m.flags(t, c.layout)
			domain, plan := b.place(t, m, flags)
			guest := b.boot(t, domain, c.firmware, m.instead)
			lost := 0
			for _, want := range plan.Expectations() {
				if !slices.ContainsFunc(guest.Devices, func(d Device) bool {
					return d.Place() == want && len(d.BARs) > 0
				}) {
					lost++
				}
			}

			if lost != c.lost {
				t.Errorf("%d devices have no memory, want %d", lost, c.lost)
			}

			if status, found := b.check(t, "io-space", underFirmware(domain, c.firmware),
				flags); status != c.status {
				t.Errorf("doctor reports %s %s, want %s", status, found, c.status)
			}
		})
	}
}
