//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// holdInnerMachines keeps all threads of each inner QEMU on the last CPU. The emulated
// SVM takes an interrupt of another CPU between VMRUN and STGI, where the global
// interrupt flag has to hold it back, and the node's kernel panics in __svm_vcpu_run. A
// vCPU whose QEMU has no thread elsewhere gets next to no such interrupts.
func holdInnerMachines() {
	var last unix.CPUSet
	online := read("/sys/devices/system/cpu/online")
	cpu, err := strconv.Atoi(online[strings.LastIndexAny(online, ",-")+1:])
	if err != nil {
		fmt.Println("HOST-ERROR read CPUs:", err)
		return
	}
	last.Set(cpu)
	for range time.Tick(100 * time.Millisecond) {
		programs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a valid pattern
		for _, file := range programs {
			if program, _, _ := strings.Cut(read(file), "\x00"); !strings.HasPrefix(filepath.Base(program), "qemu-") {
				continue
			}
			threads, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "task", "[0-9]*"))
			for _, thread := range threads {
				if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
					_ = unix.SchedSetaffinity(id, &last) // one that has ended meanwhile needs no CPU
				}
			}
		}
	}
}
