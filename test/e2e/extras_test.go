//go:build lane

package e2e

import (
	"os"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
)

// TestExtras: the domain has what viommu and gpudirect-clique give, and so does the
// guest. Two displays have the vendor of a GPU in the guest, by x-pci-vendor-id, and
// in the snapshot of the node: QEMU gives both the capability with clique 1 (NVIDIA's
// specification in QEMU hw/vfio/pci-quirks.c: the length 8, 'P', '2', 'P', and the number
// in bits 3 to 6 of the next byte). The guest's own VFIO opens devices that the node has passed
// through with VFIO.
func TestExtras(t *testing.T) {
	if os.Getenv(extrasVariable) == "" {
		t.Skipf("%s is not set", extrasVariable)
	}

	i := extras()
	guest, err := boot.ReadGuest(run(t, []inner{i}).file(t, i.name+".console"))
	expect.NoError(t, err)
	cliques := 0
	for _, d := range guest.Devices {
		switch {
		case !strings.HasPrefix(d.ID, "10de:"):
		case !strings.HasPrefix(d.VendorCapability, "09") ||
			!strings.HasSuffix(d.VendorCapability, "085032500800"):
			t.Errorf("%s has the vendor's capability %q", d.Address(), d.VendorCapability)

		default:
			cliques++
		}
	}

	if cliques != 2 {
		t.Errorf("%d displays with a clique, want 2", cliques)
	}

	if len(guest.Passed) != 2 {
		t.Errorf("the guest tried VFIO with %d devices, want 2", len(guest.Passed))
	}

	for address, result := range guest.Passed {
		if result != "opened" {
			t.Errorf("%s in the guest's VFIO: %s", address, result)
		}
	}
}
