// Package mapping estimates how long a VM's start allocates and maps its memory, and maps the BARs
// of its devices. It is derived: each rate is what others measured on one machine, with its source
// beside it. What relates them is measured: instructions per 4 KiB, which an emulated machine counts
// (test/boot, TestMapping; `make boot-sizes`).
package mapping

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"hook-sidecar/pkg/words"
)

// Rates in bytes per second.
const (
	// Of memory by pages of 4 KiB, which one thread of the kernel allocates, clears and pins: 120
	// GB in 29.69 s, 79% of it to clear (Linux commit 4d83de6da265, "vfio/type1: Batch page
	// pinning").
	allocating = 4 << 30

	// Of hugepages, which QEMU clears before vfio pins them, by one thread per vCPU up to 16: 1 TB
	// in 8m56s by one, 70 s by 8, 40 s by 16 (QEMU commit 1e356fc14bea, "mem-prealloc: reduce large
	// guest start-up and migration time"; backends/hostmem.c, prealloc-threads).
	clearing        = 1800 << 20
	clearingThreads = 16

	// Of memory that is allocated, to pin it once more: 16 GiB in 0.28 s by pages of 4 KiB, in 0.05
	// s by hugepages (Li Zhe, "vfio/type1: optimize vfio_pin_pages_remote() for large folios").
	// Measured: 930 to 1,300 instructions, by hugepages of 2 MiB 43 to 111.
	pinning     = 57 << 30
	pinningHuge = 310 << 30

	// Of BARs by pages of 4 KiB: 32 GiB in 1 s, and less than 1 ms by 1 GiB (Linux commit
	// 0fd06844de5d, "vfio/type1: Use mapping page mask for pfnmaps"). Measured: 1,020 instructions
	// with Linux 6.1, 1,120 with 6.12, and by 1 GiB with 7.2 less than one.
	walking = 32 << 30

	// BARs that QEMU does not align take this many times as long with a kernel that would map them by
	// large pages: it inserts each page in a fault of its own (drivers/vfio/pci/vfio_pci_core.c,
	// vfio_pci_mmap_huge_fault). Measured: 3,400 instructions with Linux 7.2.
	faulting = 3
)

// The first kernel whose vfio maps a BAR by the pages of its mapping, of up to 1 GiB (Linux 6.15,
// commit 0fd06844de5d; 6.12 inserts such pages, commit f9e54c3a2f5b), and the first QEMU that
// aligns mappings for them (QEMU 9.2, commit 00b519c0bca0, hw/vfio/region.c).
const (
	newKernel = "6.15"
	// NewQEMU is that QEMU's version.
	NewQEMU = "9.2"
)

// Start has what decides how long its start maps.
type Start struct {
	Memory    uint64 // bytes
	HugePages bool   // that memory is made of
	CPUs      int    // vCPUs
	// address spaces into which memory is mapped: one, with a vIOMMU one per device, none without
	// devices
	Spaces  int
	BARs    uint64 // bytes of all devices
	Kernel  string // release of the node's kernel; "" where it is not known
	OldQEMU bool   // the version of its machine allows a QEMU before NewQEMU
}

// Estimate says how long a start allocates and maps.
type Estimate struct {
	MemoryBytes   uint64  `json:"memoryBytes"`   // of the guest
	MemorySeconds float64 `json:"memorySeconds"` // to allocate and map it
	BARBytes      uint64  `json:"barBytes"`      // of all devices' 64-bit BARs
	// to map them, each time that firmware or guest turn the devices on
	BARSeconds float64 `json:"barSeconds"`
	Kernel     *string `json:"kernel"` // release of the node's kernel; null where it is not known
	Cure       string  `json:"cure"`   // what makes the longer of both shorter; "" if nothing does

	vm Start
}

// Estimate returns the estimate of a start.
func (vm Start) Estimate() Estimate {
	e := Estimate{MemoryBytes: vm.Memory, BARBytes: vm.BARs, vm: vm}
	if vm.Spaces > 0 {
		e.MemorySeconds = vm.memorySeconds()
	}

	if !vm.isHugeBAR() {
		e.BARSeconds = float64(vm.BARs) / walking
		if vm.hasNewKernel() {
			e.BARSeconds *= faulting
		}
	}

	if vm.Kernel != "" {
		e.Kernel = &vm.Kernel
	}

	e.Cure = e.cure()
	return e
}

// memorySeconds returns how long memory is allocated, and mapped into each address space.
func (vm Start) memorySeconds() float64 {
	memory, again := float64(vm.Memory), float64(vm.Spaces-1)

	// QEMU clears hugepages before they are pinned for the first time. Pages of 4 KiB are cleared
	// and pinned in one.
	if vm.HugePages {
		threads := float64(min(max(vm.CPUs, 1), clearingThreads))
		return memory/(threads*clearing) + (again+1)*memory/pinningHuge
	}

	return memory/allocating + again*memory/pinning
}

// isHugeBAR reports whether BARs are mapped by large pages for sure.
func (vm Start) isHugeBAR() bool { return vm.hasNewKernel() && !vm.OldQEMU }

func (vm Start) hasNewKernel() bool {
	kernel, err := version.ParseGeneric(vm.Kernel)
	return err == nil && kernel.AtLeast(version.MustParseGeneric(newKernel))
}

// Seconds returns the sum of both.
func (e Estimate) Seconds() float64 { return e.MemorySeconds + e.BARSeconds }

// cure returns what makes the longer of both shorter.
func (e Estimate) cure() string {
	switch vm := e.vm; {
	case e.Seconds() < short:
		return ""
	case e.BARSeconds >= e.MemorySeconds && vm.hasNewKernel():
		return fmt.Sprintf("QEMU %s or newer, which aligns BARs for pages of 1 GiB", NewQEMU)
	case e.BARSeconds >= e.MemorySeconds:
		return fmt.Sprintf("Linux %s on the node with QEMU %s or newer, which map BARs by 1 GiB "+
			"and take no time for it", newKernel, NewQEMU)

	case !vm.HugePages:
		return "hugepages, which QEMU allocates with a thread per vCPU"
	case vm.CPUs < clearingThreads:
		return fmt.Sprintf("more vCPUs: QEMU allocates hugepages with one thread for each, up to "+
			"%d", clearingThreads)
	}

	return ""
}

// short is how many seconds are not worth a word.
const short = 0.1

// Text returns the estimate as parts of a sentence: one about memory, one about BARs.
func (e Estimate) Text() []string {
	var parts []string
	if e.MemorySeconds >= short {
		kind := "memory"
		if e.vm.HugePages {
			kind = "hugepages"
		}

		text := fmt.Sprintf("%s of %s take about %s to allocate and map",
			words.BytesNeeded(e.MemoryBytes), kind, seconds(e.MemorySeconds))
		if e.vm.Spaces > 1 {
			text += fmt.Sprintf(", once for each of the %d devices that the vIOMMU separates", e.vm.Spaces)
		}

		parts = append(parts, text)
	}

	if bars := e.barText(); bars != "" {
		parts = append(parts, bars)
	}

	return parts
}

// barText returns how long BARs take, and how sure that is.
func (e Estimate) barText() string {
	vm := e.vm
	if float64(vm.BARs)/walking < short {
		return ""
	}

	text := words.BytesNeeded(vm.BARs) + " of BARs"
	if vm.isHugeBAR() {
		return text + fmt.Sprintf(" take no time to map: Linux %s maps them by 1 GiB", vm.Kernel)
	}

	text += fmt.Sprintf(" take about %s to map each time that firmware or guest turn the devices "+
		"on", seconds(e.BARSeconds))
	switch {
	case vm.Kernel == "":
		text += fmt.Sprintf(", or no time with Linux %s and QEMU %s on the node",
			newKernel, NewQEMU)

	case vm.hasNewKernel():
		text += ", if the node's QEMU is as old as the VM's machine"
	default:
		text += fmt.Sprintf(", by 4 KiB with Linux %s unless its distribution changed that",
			vm.Kernel)
	}

	return text
}

// seconds prints a time with two digits at most: more are not known.
func seconds(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.2g s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	}

	return fmt.Sprintf("%.0f min", s/60)
}
