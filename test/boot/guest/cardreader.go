//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// cardReader are the ids of QEMU's SD card reader (sdhci-pci), the stand-in that
// needs no driver: hook-sidecar/test/boot writes a device's host address into a
// register for which QEMU takes any value.
const cardReader = "0x1b360x0007"

// currentRegister is that register: the maximum current capabilities, 64 bits
// (SD Host Controller simplified specification 3.00, 2.2.27; QEMU
// hw/sd/sdhci-internal.h, SDHC_MAXCURR).
const currentRegister = 0x48

// cardReaderLabel reads the address from the device's memory. It is "" where the
// device has none.
func cardReaderLabel(device string) string {
	if err := os.WriteFile(filepath.Join(device, "enable"), []byte("1"), 0); err != nil {
		return ""
	}

	file, err := os.OpenFile(filepath.Join(device, "resource0"), os.O_RDWR, 0)
	if err != nil {
		return ""
	}

	defer file.Close()
	memory, err := syscall.Mmap(int(file.Fd()), 0, os.Getpagesize(), syscall.PROT_READ,
		syscall.MAP_SHARED)
	if err != nil {
		return ""
	}

	// QEMU's device answers accesses of up to 4 bytes.
	word := func(at int) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&memory[at]))) }
	low, high := word(currentRegister), word(currentRegister+4)
	if err := syscall.Munmap(memory); err != nil {
		return ""
	}

	return fmt.Sprintf("%04x:%02x:%02x.%x", high, low>>8&0xff, low>>3&0x1f, low&7)
}
