package mapping_test

import (
	"math"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan/mapping"
	"hook-sidecar/test/expect"
)

const gib = 1 << 30

// eightGPUs is a VM with 8 GPUs of 180 GB, whose BARs have 256 GiB, and 2 TiB of memory.
var eightGPUs = mapping.Start{Memory: 2048 * gib, CPUs: 128, Spaces: 1, BARs: 8 * 256 * gib}

// hugepages returns a VM with 1 TiB of them.
func hugepages(cpus int) mapping.Start {
	return mapping.Start{Memory: 1024 * gib, HugePages: true, CPUs: cpus, Spaces: 1}
}

// TestMeasured: the estimate returns what was measured where the rates come from.
func TestMeasured(t *testing.T) {
	for name, tt := range map[string]struct {
		vm           mapping.Start
		memory, bars float64 // seconds
	}{
		"Linux 4d83de6da265, 120 GB": {
			mapping.Start{Memory: 120 * gib, Spaces: 1}, 29.69, 0,
		},
		"QEMU 1e356fc14bea, 1 TB, 1 thread": {hugepages(1), 536, 0},
		"8 threads":                         {hugepages(8), 70, 0},
		"16 threads":                        {hugepages(16), 40, 0},
		"64 vCPUs":                          {hugepages(64), 40, 0},
		"Linux 0fd06844de5d, a BAR":         {mapping.Start{BARs: 32 * gib, Spaces: 1}, 0, 1},
		"a BAR, Linux 6.15": {mapping.Start{
			BARs: 32 * gib, Spaces: 1, Kernel: "6.15.0",
		}, 0, 0},
		// 3,400 instructions per 4 KiB in place of 1,020 (test/boot, TestMapping).
		"a BAR, Linux 6.15, an old QEMU": {mapping.Start{
			BARs: 32 * gib, Spaces: 1, Kernel: "6.15.0", OldQEMU: true,
		}, 0, 3},
		"no device": {mapping.Start{Memory: 1024 * gib}, 0, 0},
	} {
		e := tt.vm.Estimate()
		if !isNear(e.MemorySeconds, tt.memory) || !isNear(e.BARSeconds, tt.bars) {
			t.Errorf("%s: %.1f s of memory, %.1f s of BARs, want %.1f and %.1f",
				name, e.MemorySeconds, e.BARSeconds, tt.memory, tt.bars)
		}
	}
}

// isNear reports whether two times differ by less than an eighth.
func isNear(x, y float64) bool { return math.Abs(x-y) <= max(x, y)/8 }

// TestKernels: BARs are mapped by large pages from Linux 6.15 on, where the machine does not allow
// an old QEMU; and what is not known is no reason to be sure.
func TestKernels(t *testing.T) {
	for release, isFast := range map[string]bool{
		"6.15.0": true, "6.15.0-rc1": true, "6.16.4-200.fc42.x86_64": true, "7.0.1": true,
		"6.14.9": false, "6.1.0-50-amd64": false, "5.14.0-611.el9.x86_64": false,
		"10.2.0": true, "": false, "6": false, "6.x": false,
	} {
		vm := eightGPUs
		vm.Kernel = release
		if got := vm.Estimate().BARSeconds == 0; got != isFast {
			t.Errorf("Linux %q maps large BARs in no time: %v, want %v", release, got, isFast)
		}

		vm.OldQEMU = true
		if e := vm.Estimate(); e.BARSeconds == 0 {
			t.Errorf("Linux %q with an old QEMU: %+v", release, e)
		}
	}
}

// TestCure: the cure is that of the longer term, and a VM that has it is faster.
func TestCure(t *testing.T) {
	slow := eightGPUs
	expect.Same(t, "hugepages, which QEMU allocates with a thread per vCPU", slow.Estimate().Cure,
		"memory is longest (-want +got)")

	slow.HugePages = true
	slow.Memory = 256 * gib
	bars := slow.Estimate()
	if !strings.HasPrefix(bars.Cure, "Linux 6.15") {
		t.Errorf("BARs are longest: %+v", bars)
	}

	slow.Kernel = "6.15.0"
	cured := slow.Estimate()
	if cured.Seconds() >= bars.Seconds() || cured.BARSeconds != 0 {
		t.Errorf("with Linux 6.15 %+v, before %+v", cured, bars)
	}

	slow.OldQEMU = true
	if got := slow.Estimate(); !strings.HasPrefix(got.Cure, "QEMU 9.2") {
		t.Errorf("an old QEMU: %+v", got)
	}
}
