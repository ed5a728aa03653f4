package boot

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// TestVIOMMU boots guests with viommu=intel and a kernel that uses it: VT-d covers
// the expander buses too, each device is in an IOMMU group without another device, and
// the guest's own VFIO opens it, which it refuses without remapped interrupts. Under a
// switch that is under a switch two devices share a group, as the plan warns: QEMU's
// switch ports have no ACS (hw/pci-bridge/xio3130_downstream.c).
func TestVIOMMU(t *testing.T) {
	t.Parallel()
	s := amd64()
	s.modules = append(s.modules, "vfio-pci", "vfio_iommu_type1")

	// With interrupt remapping the kernel panics where its test of the timer fails, as it can on
	// a busy machine (arch/x86/kernel/apic/io_apic.c, check_timer).
	s.parameters = []string{"intel_iommu=on", "no_timer_check", "vfio=" + nvme().ids}
	b := newBench(t, s, KernelVariable, "")
	for _, c := range []struct {
		layout   string
		machine  *machine
		firmware Firmware
		alone    int // devices that share their group with no other
	}{
		{"numa", ports(4), SeaBIOS, 4},
		{"mirror", switches(2), OVMF, 2},
	} {
		t.Run(c.layout, func(t *testing.T) {
			t.Parallel()
			flags := append(c.machine.flags(t, c.layout), "--viommu", "intel")
			domain, plan := b.place(t, c.machine, flags)
			guest := b.boot(t, domain, c.firmware, c.machine.instead)
			b.checkGuest(t, guest, plan, domain, flags)
			if alone := checkGroups(t, guest); alone != c.alone {
				t.Errorf("%d devices are alone in an IOMMU group, want %d", alone, c.alone)
			}

			if len(guest.Passed) != len(c.machine.hostdevs) {
				t.Errorf("the guest tried VFIO with %d devices, want %d", len(guest.Passed),
					len(c.machine.hostdevs))
			}

			for address, result := range guest.Passed {
				if result != "opened" {
					t.Errorf("%s in the guest's VFIO: %s", address, result)
				}
			}
		})
	}

	t.Run("without", func(t *testing.T) {
		t.Parallel()
		m := ports(1)
		domain, _ := b.place(t, m, m.flags(t, "numa"))
		guest := b.boot(t, domain, SeaBIOS, m.instead)
		for address, result := range guest.Passed {
			if result == "opened" || len(guest.Passed) != 1 {
				t.Errorf("VFIO opens %s in a guest without an IOMMU", address)
			}
		}
	})
}

// checkGroups: every stand-in is in a group. It counts those that are alone there but
// for bridges.
func checkGroups(t *testing.T, guest *Guest) (alone int) {
	t.Helper()
	sysfs, err := host.ParseSnapshot(guest.Snapshot)
	expect.NoError(t, err)
	var ids []topology.DeviceID
	for _, d := range guest.Devices {
		a, err := topology.ParseAddress(d.Address())
		expect.NoError(t, err)
		ids = append(ids, topology.PCIDevice(a))
	}

	host, _ := host.Read(sysfs, ids, host.Related)
	members := map[int][]string{}
	for _, d := range host.Functions {
		if d.IOMMUGroup != nil && !d.IsBridge {
			members[*d.IOMMUGroup] = append(members[*d.IOMMUGroup], d.Address.String())
		}
	}

	for _, d := range host.Functions {
		switch ids := fmt.Sprintf("%04x:%04x", d.Vendor, d.Device); {
		case !isStandIn(ids):
		case d.IOMMUGroup == nil:
			t.Errorf("%s is in no IOMMU group", d.Address)
		case len(members[*d.IOMMUGroup]) > 1:
			t.Logf("%q share an IOMMU group", members[*d.IOMMUGroup])
		default:
			alone++
		}
	}

	return alone
}
