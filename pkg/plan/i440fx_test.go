package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestOnI440FX adds a GPU's audio to domains of machine pc that fill the slots of the root bus up to
// and past the last: no disk and no NIC moves, and a call with what libvirt reads back adds the audio
// if and only if the first does.
func TestOnI440FX(t *testing.T) {
	lib := oracle.New(t).Readback
	m := plan.Planner{
		Sysfs:  hosts(t)["x86-1n2g-rtx-audio.txtar"],
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyCompanions: "add"}},
	}

	added, refused := 0, 0
	for disks := 20; disks <= 30; disks++ {
		for _, others := range []string{
			"<memballoon model='none'/>", "<memballoon model='virtio'/><graphics type='vnc'/>",
			"<video><model type='qxl'/></video><interface type='ethernet'><model type='e1000'/></interface>",
		} {
			t.Run(fmt.Sprint(disks, others), func(t *testing.T) {
				domain := i440fx(disks, others)
				without, err := lib(domain)
				expect.NoError(t, err)
				first := m.Read(plan.Request{Domain: domain}).Plan()
				expect.Same(t, readBack(t, lib, domain), readBack(t, lib, first.Domain),
					"disks or NICs move (-without the hook +with it)")

				hostdevs := len(first.Plan.Domain().Hostdevs)
				later := m.Read(plan.Request{Domain: without}).Plan()
				if now := len(later.Plan.Domain().Hostdevs); now != hostdevs {
					t.Errorf("%d hostdevs after the first call, %d after one with libvirt's addresses",
						hostdevs, now)
				}

				if hostdevs > 1 {
					added++
				} else {
					refused++
				}
			})
		}
	}

	if added == 0 || refused == 0 {
		t.Errorf("%d domains get the audio, %d do not: want some of both", added, refused)
	}
}

// i440fx returns a domain with a GPU, so many disks and other devices.
func i440fx(disks int, others string) []byte {
	var all strings.Builder
	for i := range disks {
		name := string(rune('a' + i%26))
		if i >= 26 {
			name = "a" + name
		}
		fmt.Fprintf(&all, "<disk type='file' device='disk'><source file='/d%d'/><target dev='vd%s' bus='virtio'/></disk>", i, name)
	}

	return fmt.Appendf(nil, "<domain type='qemu'><name>pc</name><memory unit='MiB'>512</memory>"+
		"<os><type arch='x86_64' machine='pc'>hvm</type></os><devices>%s%s"+
		"<hostdev mode='subsystem' type='pci' managed='no'><source><address domain='0' bus='1' slot='0' function='0'/></source></hostdev>"+
		"</devices></domain>", all.String(), others)
}
