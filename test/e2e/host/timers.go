//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Registers of the local APIC in words (Intel SDM volume 3, table 12-1). Each CPU sees its own at
// the one address, which /dev/mem maps with the kernel's parameter iomem=relaxed.
const (
	apicAddress  = 0xfee00000
	endInterrupt = 0xb0 / 4
	inService    = 0x100 / 4 // eight words, of which each fourth is used
	initialCount = 0x380 / 4
)

// reviveTimers starts the timer again of a CPU that has lost it: the emulated SVM may lose an
// interrupt of the inner machine's exit after the local APIC has delivered it. It then stays in
// service for ever, and with it all of lower priority wait, such as the timer's. Each CPU
// looks at the others, since a thread on one without a timer never wakes up.
func reviveTimers() error {
	memory, err := os.OpenFile("/dev/mem", os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(int(memory.Fd()), apicAddress, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the local APIC: %w", err)
	}
	apic := unsafe.Slice((*uint32)(unsafe.Pointer(&page[0])), len(page)/4)
	cpus := len(timerInterrupts())
	runtime.GOMAXPROCS(2 * cpus) // also that of a thread which hangs may be needed
	for cpu := range cpus {
		go func() {
			runtime.LockOSThread()
			moveTo(cpu)
			for before := timerInterrupts(); ; {
				// Not the runtime's timers, which any thread may wait for.
				_ = unix.Nanosleep(&unix.Timespec{Sec: 5}, nil)
				now := timerInterrupts()
				for other, count := range now {
					if other < len(before) && count == before[other] {
						moveTo(other)
						logLine("timer of CPU", other, "stands still, in service:", revive(apic))
						moveTo(cpu)
					}
				}
				before = now
			}
		}()
	}
	return nil
}

// revive ends all interrupts that are in service on this CPU, which runs a program and so no
// handler, and starts its timer again. It returns their vectors.
func revive(apic []uint32) (vectors []int) {
	for word := range 8 {
		bits := atomic.LoadUint32(&apic[inService+4*word])
		for bit := range 32 {
			if bits>>bit&1 == 1 {
				vectors = append(vectors, 32*word+bit)
			}
		}
	}
	for range vectors {
		atomic.StoreUint32(&apic[endInterrupt], 0)
	}
	atomic.StoreUint32(&apic[initialCount], atomic.LoadUint32(&apic[initialCount]))
	return vectors
}

// timerInterrupts are the numbers of local timer interrupts by CPU.
func timerInterrupts() []string {
	for line := range strings.Lines(read("/proc/interrupts")) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "LOC:" {
			return slices.DeleteFunc(words[1:], func(word string) bool { return strings.Trim(word, "0123456789") != "" })
		}
	}
	return nil
}

func moveTo(cpu int) {
	var one unix.CPUSet
	one.Set(cpu)
	_ = unix.SchedSetaffinity(0, &one) // of the CPUs that run
}
