package boot

import (
	"os"
	"sort"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// place lets the program under test place a machine's devices, and libvirt read
// the result back.
func (b *bench) place(t *testing.T, m *machine, flags []string) (domain []byte, plan *Explained) {
	t.Helper()
	placed, err := mutate(b.binary, m.domain(), flags...)
	expect.NoError(t, err)
	if domain = b.libvirt.Check(t, placed); domain == nil {
		t.FailNow()
	}

	if plan, err = explain(b.binary, domain, flags...); err != nil {
		t.Fatal(err)
	}

	if n := len(plan.Expectations()); n != len(m.hostdevs) {
		t.Errorf("explain predicts %d addresses, want %d", n, len(m.hostdevs))
	}

	return domain, plan
}

// largest returns the most devices that the program under test can place before it reports that a
// budget is exceeded.
func (b *bench) largest(t *testing.T, layout string, newMachine func(int) *machine) int {
	t.Helper()
	return sort.Search(255, func(n int) bool {
		m := newMachine(n + 1)
		_, err := mutate(b.binary, m.domain(), m.flags(t, layout)...)
		if err != nil && !strings.Contains(err.Error(), "budget-exceeded") {
			t.Fatal(err)
		}

		return err != nil
	})
}

// TestLayouts boots the largest machines that each layout has budgets for, or as
// many devices as boot in a minute and a half, more PCIe roots than the root bus has slots, and
// devices with several functions.
func TestLayouts(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	numa, root, mirror := b.largest(t, "numa", crowd), b.largest(t, "root", ports), b.largest(t,
		"mirror", eights)
	t.Logf("the budgets allow %d devices with numa, %d PCIe roots with root, %d devices with "+
		"mirror, eight under a switch", numa, root, mirror)
	type layoutCase struct {
		name, layout string
		machine      *machine
		firmwares    []Firmware
	}

	seaBIOS, both := []Firmware{SeaBIOS}, []Firmware{SeaBIOS, OVMF}
	cases := []layoutCase{
		{"numa-64", "numa", crowd(64).with(cardReader()), seaBIOS},
		{"numa-48", "numa", crowd(48).with(cardReader()), []Firmware{OVMF}},
		{"root-32", "root", ports(32).with(cardReader()), both},
		{"mirror", "mirror", switches(12).with(cardReader()), both},
		{"switch", "switch", switches(4).with(cardReader()), seaBIOS},
		{"functions", "mirror", functions(), both},
	}

	if os.Getenv(LargestVariable) == "1" {
		cases = append([]layoutCase{
			{"mirror-largest", "mirror", eights(mirror).with(cardReader()), both},
			{"numa-largest", "numa", crowd(numa).with(cardReader()), both},
			// OVMF is silent for longer than a guest may be where it has twice as many root buses.
			{"root-largest", "root", ports(root).with(cardReader()), seaBIOS},
			{"root-64-largest", "root", ports(64).with(cardReader()), []Firmware{OVMF}},
		}, cases...)
	}

	for _, c := range cases {
		flags := c.machine.flags(t, c.layout)
		domain, plan := b.place(t, c.machine, flags)
		for _, firmware := range c.firmwares {
			t.Run(c.name+"/"+string(firmware), func(t *testing.T) {
				t.Parallel()
				guest := b.boot(t, domain, firmware, c.machine.instead)
				b.checkGuest(t, guest, plan, domain, flags)
				t.Logf("%d devices", len(plan.Expectations()))
			})
		}
	}
}

// TestAArch64 boots a virt machine.
func TestAArch64(t *testing.T) {
	t.Parallel()
	b := newBench(t, arm64(), Debian13Variable, "kernel-arm64")
	m := crowd(8)
	m.aarch64 = true
	flags := m.flags(t, "numa")
	domain, plan := b.place(t, m, flags)
	guest := b.boot(t, domain, AAVMF2025, m.instead)
	b.checkGuest(t, guest, plan, domain, flags)
}
