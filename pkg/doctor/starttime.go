package doctor

import (
	"fmt"

	"hook-sidecar/pkg/topology"
)

// What the kernel maps for a device per second, in bytes. They are others' measurements on one
// machine each, and a start takes no less: of BARs by pages of 4 KiB (1 s for 32 GiB, Alex
// Williamson, lore.kernel.org/all/20250218222209.1382449-1-alex.williamson@redhat.com), and of
// memory that is allocated already by pages of 4 KiB (16 GiB in 0.28 s) and by hugepages (in 0.05
// s; Li Zhe, "vfio/type1: optimize vfio_pin_pages_remote() for large folios").
const (
	barsPerSecond   = 32 << 30
	memoryPerSecond = 57 << 30
	hugePerSecond   = 310 << 30
)

// Seconds: of a start of which a user asks whether it hangs, and of a mapping that is worth a word.
const (
	longStart   = 10
	longMapping = 0.1
)

// startTime estimates how long the mapping of BARs and memory takes at least.
func startTime(in Inputs) []Result {
	d := in.Plan.Domain()
	bars, _ := in.firmware().BARs()
	memory, rate := d.MemoryBytes, float64(memoryPerSecond)
	if d.HasIOMMU() {
		memory *= uint64(len(d.Hostdevs))
	}

	if d.HugePages {
		rate = hugePerSecond
	}

	ofBARs, ofMemory := float64(bars)/barsPerSecond, float64(memory)/rate
	found := fmt.Sprintf("memory of %s takes %s to map or more", topology.BytesNeeded(memory),
		seconds(ofMemory))
	if ofBARs >= longMapping {
		found += fmt.Sprintf(", BARs of %s %s each time that firmware or guest turn the devices on",
			topology.BytesNeeded(bars), seconds(ofBARs))
	}

	switch {
	case ofBARs+ofMemory < longStart:
		return pass("%s", found)
	case ofBARs >= ofMemory:
		return note("Linux 6.15 on the node with QEMU 9.2 or newer maps BARs by 1 GiB, which "+
			"takes no time", "%s", found)

	case !d.HugePages:
		return note("hugepages of 1 GiB are mapped five times as fast", "%s", found)
	case d.HasIOMMU():
		return note("with a vIOMMU memory is mapped once per device: leave it out where the guest "+
			"does not need it", "%s", found)
	}

	return note("", "%s", found)
}

// seconds prints a time of which two digits are known at most.
func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}
