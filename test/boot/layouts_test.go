package boot

import (
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// place has the program under test place a machine's devices, and libvirt read
// the result back.
func (b *bench) place(t *testing.T, m *machine, layout string) (domain []byte, plan *Explained) {
	t.Helper()
	flags := m.flags(t, layout)
	placed, err := mutate(b.binary, m.domain(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	if domain = b.libvirt.Check(t, placed); domain == nil {
		t.FailNow()
	}
	if plan, err = explain(b.binary, domain, flags...); err != nil {
		t.Fatal(err)
	}
	return domain, plan
}

// largest is the most that the program under test can place before it says that
// a budget is exceeded.
func (b *bench) largest(t *testing.T, layout string, of func(int) *machine) int {
	t.Helper()
	return sort.Search(255, func(n int) bool {
		m := of(n + 1)
		_, err := mutate(b.binary, m.domain(), m.flags(t, layout)...)
		if err != nil && !strings.Contains(err.Error(), "budget-exceeded") {
			t.Fatal(err)
		}
		return err != nil
	})
}

// TestLayouts boots the largest machine of each layout, or where that has more
// devices than can be emulated in a minute a large one, and devices of several
// functions.
func TestLayouts(t *testing.T) {
	b := newBench(t)
	numa, root, mirror := b.largest(t, "numa", crowd), b.largest(t, "root", ports), b.largest(t, "mirror", switches)
	t.Logf("there is room for %d devices with numa, for %d PCIe roots with root, for %d with mirror and two switches each", numa, root, mirror)
	cases := []struct {
		name, layout string
		machine      *machine
	}{
		{"numa", "numa", crowd(min(numa, 38))},
		{"root", "root", ports(root)},
		{"mirror", "mirror", switches(min(mirror, 12))},
		{"functions", "mirror", functions()},
	}
	for _, c := range cases {
		domain, plan := b.place(t, c.machine, c.layout)
		want := plan.Expectations()
		if len(want) != len(c.machine.hostdevs) {
			t.Errorf("%s: explain predicts %d addresses, want %d", c.name, len(want), len(c.machine.hostdevs))
		}
		for _, firmware := range []Firmware{SeaBIOS, OVMF} {
			t.Run(c.name+"/"+string(firmware), func(t *testing.T) {
				t.Parallel()
				guest := b.boot(t, domain, firmware)
				if d := cmp.Diff(want, guest.found()); d != "" {
					t.Errorf("%d of %d devices (-planned +in the guest):\n%s", len(guest.found()), len(want), d)
				}
				checkFirmware(t, guest)
				t.Logf("%d devices", len(want))
			})
		}
	}
}

// checkFirmware: every memory BAR was given its place by the firmware. Linux
// mends what the firmware leaves, and other systems do not.
func checkFirmware(t *testing.T, guest *Guest) {
	t.Helper()
	for _, line := range guest.Kernel {
		if strings.Contains(line, "[mem") {
			t.Errorf("the kernel had to assign what the firmware did not: %s", line)
		}
	}
}

// TestControls boots what libvirt accepts and a guest then has not, so that it
// is known that these tests can fail.
func TestControls(t *testing.T) {
	b := newBench(t)
	replace := strings.NewReplacer
	four, plan := b.place(t, ports(4), "numa")
	mirrored, mirrorPlan := b.place(t, switches(6), "mirror")
	cases := []struct {
		name     string
		firmware Firmware
		domain   []byte
		plan     *Explained
		broken   *strings.Replacer
	}{
		// Two ports need 191 to 193, and from 192 on the numbers are the other's.
		{"numbers-too-tight", OVMF, four, plan, replace("busNr='192'", "busNr='223'")},
		// libvirt takes 254 and 252, one number for two ports.
		{"numbers-of-libvirt", OVMF, four, plan, replace(" busNr='192'", "", " busNr='224'", "")},
		{"no-function-0", SeaBIOS, four, plan, replace("bus='0x05' slot='0x00' function='0x0'", "bus='0x05' slot='0x00' function='0x1'")},
		// OVMF 2022.11 keeps room at each of 24 switch ports, and then has none for
		// the devices; with 12 ports it has.
		{"ports-can-hotplug", OVMF, mirrored, mirrorPlan, replace(" hotplug='off'", "")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken := c.broken.Replace(string(c.domain))
			if broken == string(c.domain) {
				t.Fatalf("nothing to replace in:\n%s", c.domain)
			}
			readback, err := b.libvirt.Define([]byte(broken))
			if err != nil {
				t.Fatalf("libvirt sees it, so it shows nothing: %v", err)
			}
			found := b.boot(t, readback, c.firmware).found()
			lost := 0
			for id := range c.plan.Expectations() {
				if _, there := found[id]; !there {
					lost++
				}
			}
			if lost == 0 {
				t.Errorf("every device is there: %v", found)
			}
			t.Logf("%d of %d devices lost", lost, len(c.plan.Expectations()))
		})
	}
}
