package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan/mapping"
	"hook-sidecar/test/expect"
)

// TestMapping counts the instructions by which VFIO maps memory and the BAR of 1 GiB of a device, in
// a machine with an IOMMU: with -icount a nanosecond of the machine is an instruction (QEMU
// docs/devel/tcg-icount.rst), however busy this one is. What package mapping assumes holds: BARs
// take as long as they have pages of 4 KiB, about as long as memory that is allocated, hugepages
// take a part of that; and with the kernels that it names, aligned BARs take nothing.
func TestMapping(t *testing.T) {
	if os.Getenv(SizesVariable) != "1" {
		t.Skipf("%s is not 1; `make boot-sizes` sets it", SizesVariable)
	}

	for _, variable := range []string{KernelVariable, Kernel612Variable, NewestVariable} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			release, mapped := countMapping(t, variable)
			for what, list := range mapped {
				t.Logf("Linux %s, %s: %.4g instructions per 4 KiB", release, what, perPage(list))
			}

			checkMapping(t, release, mapped)
		})
	}
}

// countMapping boots the kernel whose directory an environment variable names, and returns its
// release and what it mapped.
func countMapping(t *testing.T, variable string) (release string, mapped map[string][]Mapping) {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s is not set", variable)
	}

	if variable == NewestVariable {
		dir = filepath.Join(dir, "root")
	}

	kernel, err := KernelIn(dir)
	expect.NoError(t, err)
	s := amd64()
	s.cpu = amd + ",phys-bits=46"
	s.modules = append(s.modules, "vfio-pci", "vfio_iommu_type1")
	s.parameters = []string{"intel_iommu=on", "no_timer_check", "mapping=1b36:0005"}
	lab, err := newLab(t.TempDir(), s, dir, "")
	expect.NoError(t, err)

	guest, err := lab.Boot(t.Context(), strings.Fields(`-nodefaults -no-user-config -display none
-no-reboot -M q35,kernel-irqchip=split -accel tcg -icount shift=0,sleep=off -m 1024
-device intel-iommu,intremap=on,aw-bits=48 -device pci-testdev,membar=1G`), SeaBIOS)
	expect.NoError(t, err)
	return strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"), guest.Mapped
}

// perPage returns the instructions per 4 KiB of the largest mapping.
func perPage(list []Mapping) float64 {
	if len(list) == 0 {
		return 0
	}

	largest := list[len(list)-1]
	return float64(largest.Instructions) / float64(largest.Bytes>>12)
}

// checkMapping compares what a kernel mapped with what package mapping assumes.
func checkMapping(t *testing.T, release string, mapped map[string][]Mapping) {
	t.Helper()
	unaligned := mapped["bar-unaligned"]
	if len(unaligned) < 3 {
		t.Fatalf("%d sizes of a BAR, want 3: %v", len(unaligned), mapped)
	}

	for i, m := range unaligned[1:] {
		grows := float64(m.Instructions) / float64(unaligned[i].Instructions)
		if grows < 1.8 || grows > 2.2 {
			t.Errorf("twice as large a BAR takes %.2f times the instructions, want 2", grows)
		}
	}

	memory, huge := perPage(mapped["memory"]), perPage(mapped["hugepages"])
	if huge <= 0 || memory < 4*huge {
		t.Errorf("4 KiB of memory take %.0f instructions, of hugepages %.0f, want a quarter at most",
			memory, huge)
	}

	// The estimate of an old QEMU is that of BARs which are not aligned.
	start := mapping.Start{BARs: unaligned[len(unaligned)-1].Bytes, Spaces: 1, Kernel: release}
	isFree := start.Estimate().BARSeconds == 0
	if got := perPage(mapped["bar"]) < 1; got != isFree {
		t.Errorf("Linux %s maps an aligned BAR by %.4g instructions per 4 KiB; the estimate of no "+
			"time is %v", release, perPage(mapped["bar"]), isFree)
	}

	// An old QEMU maps a BAR where the kernel chooses, which aligns it no better.
	if chosen := perPage(mapped["bar-chosen"]); isFree && chosen < 0.8*perPage(unaligned) {
		t.Errorf("Linux %s maps a BAR where it chooses by %.4g instructions per 4 KiB, an unaligned "+
			"one by %.4g", release, chosen, perPage(unaligned))
	}

	low, high := 0.5, 5.0
	if isFree {
		low = 2
	}
	if ratio := perPage(unaligned) / memory; ratio < low || ratio > high {
		t.Errorf("4 KiB of a BAR take %.1f times as many instructions as memory, want %g to %g",
			ratio, low, high)
	}
}
