package boot

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestControls boots domains that libvirt accepts and that lose devices in the
// guest, to show that these tests can fail. The program's own comparison has to
// name every device that is not where it was planned.
func TestControls(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	four, cascades := ports(4), switches(6)
	fourFlags, cascadesFlags := four.flags(t, "numa"), cascades.flags(t, "mirror")
	placed, plan := b.place(t, four, fourFlags)
	mirrored, mirrorPlan := b.place(t, cascades, cascadesFlags)
	replace := strings.NewReplacer
	cases := []struct {
		name     string
		firmware Firmware
		domain   []byte
		plan     *Explained
		flags    []string
		broken   *strings.Replacer
	}{
		// Two ports need 223 to 225, and 224 is where the other expander bus starts.
		{"numbers-too-tight", OVMF, placed, plan, fourFlags, replace("busNr='192'", "busNr='223'")},
		// libvirt takes 254 and 252, one number for two ports.
		{"numbers-of-libvirt", OVMF, placed, plan, fourFlags,
			replace(" busNr='192'", "", " busNr='224'", "")},
		{"no-function-0", SeaBIOS, placed, plan, fourFlags,
			replace("bus='0x05' slot='0x00' function='0x0'",
				"bus='0x05' slot='0x00' function='0x1'")},
		// OVMF 2022.11 reserves memory at each of 24 switch ports, and then has none
		// for the devices; with 12 ports it has. They are where they should be, without
		// memory.
		{"ports-can-hotplug", OVMF, mirrored, mirrorPlan, cascadesFlags,
			replace(" hotplug='off'", "")},
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name == "ports-can-hotplug" && os.Getenv(oracle.RootVariable) != "" {
				t.Skip("OVMF 2025.02 and newer lose nothing there")
			}

			guest := b.bootBroken(t, c.domain, c.firmware, c.broken)
			var lost []string
			for id := range c.plan.Expectations() {
				if _, exists := guest.found()[id]; !exists {
					lost = append(lost, id)
				}
			}

			if len(lost) == 0 {
				t.Errorf("no device is lost: %v", guest.found())
			}

			t.Logf("%d of %d devices lost", len(lost), len(c.plan.Expectations()))
			b.checkDiffers(t, c.domain, guest, lost, c.flags)
		})
	}
}

// checkDiffers: explain --guest names the lost devices of a guest.
func (b *bench) checkDiffers(t *testing.T, domain []byte, guest *Guest, lost, flags []string) {
	t.Helper()
	seen, err := compare(b.binary, t.TempDir(), domain, guest.Snapshot, flags...)
	expect.NoError(t, err)

	for _, d := range seen.Devices {
		if slices.Contains(lost, Label(d.ID)) && d.Outcome != "differs" {
			t.Errorf("%s is lost, and explain --guest reports %s", d.ID, d.Outcome)
		}
	}

	if seen.Status != 1 {
		t.Errorf("explain --guest exits with %d, want 1", seen.Status)
	}
}

// bootBroken boots a domain after a change that libvirt does not see.
func (b *bench) bootBroken(
	t *testing.T, domain []byte, firmware Firmware, change *strings.Replacer,
) *Guest {
	t.Helper()
	broken := change.Replace(string(domain))
	if broken == string(domain) {
		t.Fatalf("nothing to replace in:\n%s", domain)
	}

	readback, err := b.libvirt.Define([]byte(broken))
	if err != nil {
		t.Fatalf("libvirt refuses it, so nothing is tried: %v", err)
	}

	return b.boot(t, readback, firmware, nvme())
}

// TestOVMF2025 boots the domain of ports-can-hotplug: OVMF 2022.11 loses every
// device of it, OVMF 2025.02 none.
func TestOVMF2025(t *testing.T) {
	t.Parallel()
	if os.Getenv(Debian13Variable) == "" {
		t.Skipf("%s is not set; `make boot` sets it", Debian13Variable)
	}

	b := newPC(t)
	m := switches(6)
	flags := m.flags(t, "mirror")
	domain, plan := b.place(t, m, flags)
	guest := b.bootBroken(t, domain, OVMF2025, strings.NewReplacer(" hotplug='off'", ""))
	b.checkGuest(t, guest, plan, domain, flags)
}
