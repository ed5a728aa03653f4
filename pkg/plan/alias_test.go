package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

var cpuMode = regexp.MustCompile(`mode="host-(model|passthrough)"`)

// TestWindowOfAlias: libvirt replaces machine q35 by the version that it stands for, after the
// first call. With a named CPU model the guest's address bits are known only then. What mmio-window
// has written stays, and where it has written nothing, which every third case is tried for and with
// WHOLE=1 each, it does not begin to.
func TestWindowOfAlias(t *testing.T) {
	t.Parallel()
	const alias = `machine="q35"`
	written, kept := 0, 0
	for i, c := range cases.Load(t, root) {
		m := c.Planner
		m.Flags = maps.Clone(m.Flags)
		m.Flags[policy.KeyMMIOWindow], m.Flags[policy.KeyStrict] = "auto", "false"
		m.Flags[policy.KeyPortSpeed] = "default" // TestLinksOfAlias
		m.Locked = append(slices.Clone(m.Locked), policy.KeyPortSpeed)
		domain := cpuMode.ReplaceAll(c.Request.Domain, []byte(`mode="custom"`))
		first := m.Read(plan.Request{Domain: domain, VMI: c.Request.VMI}).Plan()
		if first.Err != nil || !bytes.Contains(first.Domain, []byte(alias)) {
			continue
		}

		if bytes.Contains(first.Domain, []byte("hook-sidecar-mmio-window")) {
			written++
		} else if kept++; !expect.IsSampled(i, 3) {
			continue
		}

		// Upstream's machine has 40 address bits with a named CPU model, Red Hat's the host's.
		for _, version := range []string{"pc-q35-7.2", "pc-q35-rhel9.6.0"} {
			resolved := bytes.Replace(first.Domain, []byte(alias), []byte(`machine="`+version+`"`),
				1)
			again := m.Read(plan.Request{Domain: resolved, VMI: c.Request.VMI}).Plan()
			if !bytes.Equal(again.Domain, resolved) {
				t.Errorf("%s: with %s the second call changes the domain:\n%s", c.Name, version,
					changes(resolved, again.Domain))
			}
		}
	}

	if written < 5 || kept < 5 {
		t.Errorf("%d cases with a window, %d without: the test shows little", written, kept)
	}
}

// TestWindowOfCalls: all calls of a boot write the same window. The first knows no port of a device
// that libvirt plugs in, though a port begins at a multiple of the largest BAR under it.
func TestWindowOfCalls(t *testing.T) {
	t.Parallel()
	libvirt := oracle.New(t)
	seed := uint64(rand.IntN(1_000_000))
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 63))
	written := 0
	for range expect.Count(60, 120) {
		host, hostdevs := "cpus 0 0-3\n", ""
		for i := range 1 + r.IntN(8) {
			host += fmt.Sprintf("pci0000:%02x/0000:%02[1]x:01.0/0000:%02x:00.0 node=0 group=%d "+
				"driver=vfio-pci bar=%d,25\n", 0x10*(i+1), 0x10*(i+1)+1, i, 33+r.IntN(7))
			hostdevs += fmt.Sprintf("<hostdev mode='subsystem' type='pci'><source><address domain='0' "+
				"bus='0x%02x' slot='0' function='0'/></source></hostdev>", 0x10*(i+1)+1)
		}

		disks := strings.Repeat("<rng model='virtio'><backend model='random'>/dev/urandom</backend>"+
			"</rng>", r.IntN(4))
		domain := []byte(fmt.Sprintf("<domain type='qemu'><name>t</name><memory unit='GiB'>%d</memory>"+
			"<vcpu>4</vcpu><os><type arch='x86_64' machine='q35'>hvm</type>"+
			"<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader></os>"+
			"<features><acpi/></features><devices>%s%s</devices></domain>", 1<<r.IntN(10), hostdevs,
			disks))

		layout := []policy.Layout{policy.LayoutKeep, policy.LayoutNUMA, policy.LayoutRoot}[r.IntN(3)]
		hook := plan.Planner{
			Sysfs: expect.Host(t, host), PhysBits: func() int { return 46 },
			Source: policy.Source{Flags: map[policy.Key]string{
				policy.KeyLayout: string(layout), policy.KeyMMIOWindow: "auto",
			}},
		}

		first := hook.Read(plan.Request{Domain: domain}).Plan()
		expect.NoError(t, first.Err)
		back, err := libvirt.Readback(first.Domain)
		expect.NoError(t, err)
		back = regexp.MustCompile(`pc-q35-[0-9.]+`).ReplaceAll(back, []byte("q35"))
		second := hook.Read(plan.Request{Domain: back}).Plan()
		expect.NoError(t, second.Err)
		window := first.Plan.Domain().WindowBytes()
		if now := second.Plan.Domain().WindowBytes(); now != window {
			t.Errorf("%s: a window of %d MiB, then of %d: %v, %v\n%s%s", layout, window>>20, now>>20,
				first.Plan.Extras, second.Plan.Extras, host, domain)
		}

		if window > 0 {
			written++
		}
	}

	if written < 5 {
		t.Errorf("%d windows: the test shows little", written)
	}
}

// TestLinksOfAlias: with the version of a QEMU that has links of switch ports the second call
// changes nothing. With an older one, which would not start, it removes them, and no device
// moves.
func TestLinksOfAlias(t *testing.T) {
	t.Parallel()
	c := cases.Named(t, root, "auto-hgx-port-speed")
	first := c.Planner.Read(c.Request).Plan()
	expect.NoError(t, first.Err)

	for version, stay := range map[string]bool{
		"pc-q35-10.0":      true,
		"pc-q35-rhel9.8.0": true,
		"pc-q35-9.2":       false,
		"pc-q35-rhel9.6.0": false,
	} {
		resolved := bytes.Replace(first.Domain, []byte(`machine="q35"`),
			[]byte(`machine="`+version+`"`), 1)
		again := c.Planner.Read(plan.Request{Domain: resolved, VMI: c.Request.VMI}).Plan()
		if isSame := bytes.Equal(again.Domain, resolved); isSame != stay ||
			bytes.Contains(again.Domain, []byte("cxl-upstream")) != stay {
			t.Errorf("%s: the second call changes the domain: %v", version, !isSame)
		}

		expect.Same(t, places(first.Plan), places(again.Plan),
			"%s: devices move (-first +second)", version)
	}
}
