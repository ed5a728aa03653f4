package topology_test

import (
	"testing"

	"hook-sidecar/pkg/topology"
)

// Kernels print these speeds; older ones wrote "8 GT/s".
func TestParseLinkSpeed(t *testing.T) {
	for text, want := range map[string]float64{
		"2.5 GT/s PCIe": 2.5, "5.0 GT/s PCIe": 5, "8.0 GT/s PCIe": 8, "16.0 GT/s PCIe": 16,
		"32.0 GT/s PCIe": 32, "64.0 GT/s PCIe": 64, "8 GT/s": 8,
	} {
		if got, err := topology.ParseLinkSpeed(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}

	for _, text := range []string{
		"", "Unknown", "16.0", "16.0 Gb/s", "-8.0 GT/s PCIe", "0 GT/s", "NaN GT/s", "Inf GT/s",
		"1e9 GT/s",
	} {
		if got, err := topology.ParseLinkSpeed(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestLinkString(t *testing.T) {
	for want, link := range map[string]topology.Link{
		"2.5 GT/s x1": {Speed: 2.5, Width: 1},
		"32 GT/s x16": {Speed: 32, Width: 16},
		"unknown":     {},
	} {
		if got := link.String(); got != want {
			t.Errorf("%+v.String() = %q, want %q", link, got, want)
		}
	}
}
