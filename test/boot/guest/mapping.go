//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	smallPage, hugePage, hugestPage = 4 << 10, 2 * mib, gib

	largeBAR = 2       // number of that of QEMU's pci-testdev (hw/misc/pci-testdev.c)
	twice    = 1 << 40 // I/O address of a second mapping, above those of the first
)

// measureMapping measures how long VFIO takes to map memory, and the large BAR of each device, as
// QEMU lets it at a guest's start. It prints one line per request.
func measureMapping(devices []string) error {
	debug.SetGCPercent(-1) // which would be measured, too

	for _, device := range devices {
		if err := bindVFIO(device); err != nil {
			return err
		}

		opened, err := openVFIO(device)
		if err != nil {
			return err
		}

		if err := errors.Join(opened.mapMemory(), opened.mapBAR(), opened.close()); err != nil {
			return fmt.Errorf("map for %s: %w", device, err)
		}
	}

	return nil
}

// mapMemory maps memory of small and of huge pages, of three sizes.
func (v vfioDevice) mapMemory() error {
	const most = 256 * mib
	pages := fmt.Sprint(most / hugePage)
	if err := os.WriteFile("/proc/sys/vm/nr_hugepages", []byte(pages), 0); err != nil {
		return err
	}

	for size := uintptr(most / 4); size <= most; size *= 2 {
		for what, flags := range map[string]int{"memory": 0, "hugepages": unix.MAP_HUGETLB} {
			memory, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|flags)
			if err != nil {
				return fmt.Errorf("allocate %d bytes of %s: %w", size, what, err)
			}

			// Else the kernel takes huge pages (Documentation/admin-guide/mm/transhuge.rst).
			if flags == 0 {
				err = unix.Madvise(unsafe.Slice((*byte)(memory), size), unix.MADV_NOHUGEPAGE)
			}

			err = errors.Join(err, v.mapMemoryTwice(what, memory, size), unix.MunmapPtr(memory, size))
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// mapMemoryTwice maps memory that nobody has touched, so that the kernel allocates and clears it,
// and then once more at another I/O address.
func (v vfioDevice) mapMemoryTwice(what string, memory unsafe.Pointer, size uintptr) error {
	return errors.Join(
		v.mapDMA(what+"-first", memory, 0, size), v.mapDMA(what, memory, twice, size),
		v.unmapDMA(0, size), v.unmapDMA(twice, size))
}

// mapBAR maps a quarter, a half and all of the device's large BAR: at addresses of this process that
// are aligned for the largest pages, as QEMU takes them from 9.2 on (hw/vfio/region.c,
// vfio_region_mmap), at those that the kernel chooses, as before, and at some that are aligned for
// the smallest pages only.
func (v vfioDevice) mapBAR() error {
	info := struct {
		argsz, flags, index, capabilities uint32
		size, offset                      uint64
	}{argsz: 32, index: largeBAR}
	if _, err := request(v.device, vfioGetRegionInfo, unsafe.Pointer(&info)); err != nil {
		return fmt.Errorf("read the region of BAR %d: %w", largeBAR, err)
	}

	whole := uintptr(info.size)
	space, err := unix.MmapPtr(-1, 0, nil, whole+2*hugestPage, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("reserve addresses for %d bytes: %w", whole, err)
	}

	aligned := unsafe.Add(space, hugestPage-uintptr(space)%hugestPage)

	// The kernel chooses addresses from high to low. With this hole they are aligned by chance no more.
	if err := unix.MunmapPtr(space, smallPage); err != nil {
		return err
	}

	for size := whole / 4; size <= whole; size *= 2 {
		if err := errors.Join(
			v.mapRegion("bar", int64(info.offset), aligned, size),
			v.mapRegion("bar-chosen", int64(info.offset), nil, size),
			v.mapRegion("bar-unaligned", int64(info.offset), unsafe.Add(aligned, smallPage),
				size)); err != nil {
			return err
		}
	}

	return nil
}

// mapRegion maps a part of the device's file at an address, or where the kernel chooses with nil,
// and that for the device. The I/O address is above the interrupts' (0xfee00000).
func (v vfioDevice) mapRegion(what string, offset int64, at unsafe.Pointer, size uintptr) error {
	flags := unix.MAP_SHARED
	if at != nil {
		flags |= unix.MAP_FIXED
	}

	region, err := unix.MmapPtr(int(v.device.Fd()), offset, at, size,
		unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return fmt.Errorf("mmap %d bytes of BAR %d: %w", size, largeBAR, err)
	}

	// No hole for the kernel's next choice. With PROT_NONE it takes no memory.
	err = errors.Join(v.mapDMA(what, region, twice, size), v.unmapDMA(twice, size))
	_, reserveErr := unix.MmapPtr(-1, 0, region, size, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return errors.Join(err, reserveErr)
}

// mapDMA maps addresses of this process for the device, and prints how long that took.
func (v vfioDevice) mapDMA(what string, memory unsafe.Pointer, iova, size uintptr) error {
	const readable, writable = 1, 2
	argument := struct {
		argsz, flags     uint32
		vaddr, iova, len uint64
	}{32, readable | writable, uint64(uintptr(memory)), uint64(iova), uint64(size)}

	began := time.Now()
	if _, err := request(v.container, vfioMapDMA, unsafe.Pointer(&argument)); err != nil {
		return fmt.Errorf("map %d bytes of %s: %w", size, what, err)
	}

	fmt.Println("GUEST-MAPPED", what, size, time.Since(began).Nanoseconds(), memory)
	return nil
}

func (v vfioDevice) unmapDMA(iova, size uintptr) error {
	argument := struct {
		argsz, flags uint32
		iova, len    uint64
	}{24, 0, uint64(iova), uint64(size)}
	if _, err := request(v.container, vfioUnmapDMA, unsafe.Pointer(&argument)); err != nil {
		return fmt.Errorf("unmap %d bytes: %w", size, err)
	}

	return nil
}
