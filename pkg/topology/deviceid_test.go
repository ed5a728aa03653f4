package topology_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

func TestParseUUID(t *testing.T) {
	const want = topology.UUID("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01")
	for _, text := range []string{
		string(want), "4A1F0B5C-6C3E-4F5A-9D0E-3B1C7F2A9E01",
		"4a1F0b5c-6c3e-4F5a-9d0e-3b1c7f2a9E01",
	} {
		if got, err := topology.ParseUUID(text); err != nil || got != want {
			t.Errorf("ParseUUID(%q) = %q, %v", text, got, err)
		}
	}

	for _, text := range []string{
		"", "4a1f0b5c6c3e4f5a9d0e3b1c7f2a9e01", "{4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01}",
		" 4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01", "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e0",
		"4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e011",
		"4a1f0b5-c6c3e-4f5a-9d0e-3b1c7f2a9e01", "4a1f0b5g-6c3e-4f5a-9d0e-3b1c7f2a9e01",
		"4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01-", "0000:17:00.0", "../../../etc",
	} {
		if got, err := topology.ParseUUID(text); err == nil {
			t.Errorf("ParseUUID(%q) = %q, want an error", text, got)
		}
	}
}

func TestDeviceID(t *testing.T) {
	a := address(t, "0000:17:00.0")
	pci := topology.PCIDevice(a)
	mdev := topology.MediatedDevice("4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01")

	if got, ok := pci.PCI(); !ok || got != a || pci.Kind() != topology.KindPCI ||
		pci.String() != "0000:17:00.0" {
		t.Errorf("PCI device: %v, %v, %v, %q", got, ok, pci.Kind(), pci)
	}

	if _, ok := pci.MDEV(); ok {
		t.Error("a PCI device has a UUID")
	}

	if got, ok := mdev.MDEV(); !ok || string(got) != mdev.String() ||
		mdev.Kind() != topology.KindMDEV {
		t.Errorf("mediated device: %v, %v, %v, %q", got, ok, mdev.Kind(), mdev)
	}

	if _, ok := mdev.PCI(); ok {
		t.Error("a mediated device has a PCI address")
	}

	// The zero address is a valid device.
	if zero := topology.PCIDevice(topology.Address{}); zero.Kind() != topology.KindPCI ||
		zero.String() != "0000:00:00.0" {
		t.Errorf("device at the lowest address: %v %q", zero.Kind(), zero)
	}
}

func TestDeviceIDOrder(t *testing.T) {
	want := []topology.DeviceID{
		topology.PCIDevice(address(t, "0000:17:00.0")),
		topology.PCIDevice(address(t, "0000:17:00.1")),
		topology.PCIDevice(address(t, "10000:01:00.0")),
		topology.MediatedDevice("0c9d2b77-1f0e-4f4e-8f57-6a2e5b8d4c02"),
		topology.MediatedDevice("e2b7a4d0-93c1-4a6b-b8de-51f0c6a7d903"),
	}

	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, topology.DeviceID.Compare)
	expect.Same(t, texts(want), texts(got), "order (-want +got)")
}

func texts(ids []topology.DeviceID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}
