//go:build linux

package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// holdInnerMachines keeps all threads of each inner QEMU on one CPU, the last of its
// control group. The emulated SVM takes an interrupt of another CPU between VMRUN and STGI,
// where the global interrupt flag has to hold it back, and the node's kernel panics in
// __svm_vcpu_run. A vCPU whose QEMU has no thread elsewhere gets next to no such
// interrupts. It looks for QEMUs in these intervals.
func holdInnerMachines(every time.Duration) {
	for range time.Tick(every) {
		programs, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a valid pattern
		for _, file := range programs {
			if program, _, _ := strings.Cut(read(file),
				"\x00"); !strings.HasPrefix(filepath.Base(program), "qemu-") {
				continue
			}

			process := filepath.Dir(file)
			cpu, err := lastCPU(process)
			if err != nil { // it has ended meanwhile
				continue
			}

			var one unix.CPUSet
			one.Set(cpu)
			threads, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*"))
			for _, thread := range threads {
				if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
					_ = unix.SchedSetaffinity(id, &one) // one that has ended meanwhile needs no CPU
				}
			}
		}
	}
}

// lastCPU returns the last CPU that a process may have.
func lastCPU(process string) (int, error) {
	online := read(filepath.Join("/sys/fs/cgroup", read(process+"/cpuset"),
		"cpuset.cpus.effective"))
	if online == "" { // the root of control groups without this controller
		online = read("/sys/devices/system/cpu/online")
	}

	return strconv.Atoi(online[strings.LastIndexAny(online, ",-")+1:])
}
