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
	grace := all[slices.IndexFunc(all, func(c cases.Case) bool { return c.Name == "grace" })]
	without := grace.Request.Domain
	with := grace.Mutator.Read(grace.Request).Plan().Domain
	for _, tt := range []struct {
		name, written string
		domain        []byte
		kept          bool
	}{
		{"KubeVirt's", `ssidSize="20"`, without, false},
		{"the hook's", `ssidsize="20"`, with, libvirt.version >= version(12, 7)},
	} {
		if !strings.Contains(string(tt.domain), tt.written) {
			t.Errorf("%s domain has no %s", tt.name, tt.written)
		}
		// Of all rules only this one: an older libvirt has to accept pciBus and nodeset, too.
		emulated, _ := prepare(tt.domain, []rule{{apply: kvmAsQEMU}})
		readback, err := libvirt.define(emulated, "define ")
		if err != nil {
			skipWithoutEmulator(t, err)
			t.Fatalf("%s domain: %v", tt.name, err)
		}
		expect.Same(t, tt.kept, strings.Contains(string(readback), "ssidsize='20'"), "%s ssidsize is kept", tt.name)
	}
}
