package domain_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/test/expect"
)

// TestHyperV: libvirt's modes are custom, which is the default, and those that give the guest what the
// host has.
func TestHyperV(t *testing.T) {
	for features, want := range map[string]bool{
		"": false, "<acpi/>": false, "<hyperv/>": false,
		"<hyperv><relaxed state='off'/></hyperv>":                 false,
		"<hyperv><vapic state='off'/><runtime/></hyperv>":         false,
		"<hyperv><relaxed state='on'/></hyperv>":                  true,
		"<hyperv mode='custom'><synic state='on'/></hyperv>":      true,
		"<hyperv mode='passthrough'/>":                            true,
		"<hyperv mode='host-model'><synic state='off'/></hyperv>": true,
	} {
		d, err := domain.Parse([]byte("<domain><features>" + features + "</features></domain>"))
		expect.NoError(t, err)
		if d.HyperV != want {
			t.Errorf("%s: %v, want %v", features, d.HyperV, want)
		}
	}
}
