package plan_test

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

var cpuMode = regexp.MustCompile(`mode="host-(model|passthrough)"`)

// TestWindowOfAlias: libvirt replaces machine q35 by the version that it stands for, after the
// first call. With a named CPU model the guest's address bits are known only then. What
// mmio-window has written stays, and where it has written nothing it does not begin to.
func TestWindowOfAlias(t *testing.T) {
	t.Parallel()
	const alias = `machine="q35"`
	written, kept := 0, 0
	for _, c := range cases.Load(t, root) {
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

		if bytes.Contains(first.Domain, []byte("hook-sidecar-mmio-window")) {
			written++
		} else {
			kept++
		}
	}

	if written < 5 || kept < 5 {
		t.Errorf("%d cases with a window, %d without: the test shows little", written, kept)
	}
}

// TestLinksOfAlias: with the version of a QEMU that has links of switch ports the second call
// changes nothing. With an older one, which would not start, it removes them, and no device
// moves.
func TestLinksOfAlias(t *testing.T) {
	t.Parallel()
	for _, c := range cases.Load(t, root) {
		if c.Name != "auto-hgx-port-speed" {
			continue
		}

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

		return
	}

	t.Error("no such case")
}
