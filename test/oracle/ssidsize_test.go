package oracle

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
)

// TestSSIDSize: what virt-launcher's define makes of the hook's ssidsize, and of KubeVirt's
// ssidSize without the hook. libvirt 12.7 knows the first and drops the second; an older one
// refuses neither and drops both, so the hook may always write it.
func TestSSIDSize(t *testing.T) {
	libvirt := New(t)
	all := cases.Load(t, "../..")
	grace := all[slices.IndexFunc(all, func(c *cases.Case) bool { return c.Name == "grace" })]
	for written, tt := range map[string]struct {
		domain []byte
		kept   bool
	}{
		`ssidSize="20"`: {grace.Request.Domain, false},
		`ssidsize="20"`: {grace.Planner.Read(grace.Request).Plan().Domain,
			libvirt.version >= version(12, 7)},
	} {
		// Of all rules only this one: an older libvirt has to accept pciBus and nodeset, too.
		emulated, _ := prepare(tt.domain, []rule{{apply: kvmAsQEMU}})
		readback, err := libvirt.define(emulated, "define ")
		if err != nil {
			skipWithoutEmulator(t, err)
			t.Fatal(err)
		}

		expect.Same(t, true, strings.Contains(string(emulated), written), "the domain has %s",
			written)
		expect.Same(t, tt.kept, strings.Contains(string(readback), "ssidsize='20'"), "%s is kept",
			written)
	}
}
