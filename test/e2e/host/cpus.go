//go:build linux

package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settled is the age of a process that will not become QEMU: libvirt's child does so soon after it
// has begun.
const settled = time.Minute

// holdInnerMachines keeps all threads of each inner QEMU on one CPU, the last of its
// control group. The emulated SVM takes an interrupt of another CPU between VMRUN and STGI,
// where the global interrupt flag has to hold it back, and the node's kernel panics in
// __svm_vcpu_run. A vCPU whose QEMU has no thread elsewhere gets next to no such
// interrupts. It looks for QEMUs in these intervals, and not at processes that have settled: with
// two hundred of them that took 42% of an emulated CPU.
func holdInnerMachines(every time.Duration) {
	began := map[string]time.Time{} // when a process was first seen, or last seen as QEMU
	for now := range time.Tick(every) {
		processes, _ := filepath.Glob("/proc/[0-9]*") // a valid pattern
		seen := make(map[string]time.Time, len(processes))
		for _, process := range processes {
			since, isKnown := began[process]
			if !isKnown {
				since = now
			}

			if now.Sub(since) < settled && isQEMU(process) {
				since = now
				hold(process)
			}

			seen[process] = since
		}

		began = seen
	}
}

// isQEMU reports whether a directory of /proc is that of a QEMU.
func isQEMU(process string) bool {
	program, _, _ := strings.Cut(read(process+"/cmdline"), "\x00")
	return strings.HasPrefix(filepath.Base(program), "qemu-")
}

// hold keeps all threads of a process on one CPU. One that has ended meanwhile needs none.
func hold(process string) {
	cpu, err := lastCPU(process)
	if err != nil {
		return
	}

	var one unix.CPUSet
	one.Set(cpu)
	threads, _ := filepath.Glob(filepath.Join(process, "task", "[0-9]*"))
	for _, thread := range threads {
		if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
			_ = unix.SchedSetaffinity(id, &one)
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
