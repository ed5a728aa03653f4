package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/pkg/words"
)

// readLimits reads the limits of a cgroup from its directory: memory.max, bytes or max, and
// cpu.max, a quota or max and a period, both in microseconds (kernel
// Documentation/admin-guide/cgroup-v2.rst). A container sees its own as the root of
// /sys/fs/cgroup. It returns nil without an error when the directory shows no limits, as with
// cgroup v1 and outside a container.
func readLimits(dir fs.FS) (*doctor.Limits, error) {
	memory, errMemory := fs.ReadFile(dir, "memory.max")
	cpu, errCPU := fs.ReadFile(dir, "cpu.max")
	switch err := cmp.Or(errMemory, errCPU); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read limits: %w", err)
	}

	var limits doctor.Limits
	if content := strings.TrimSpace(string(memory)); content != "max" {
		var err error
		if limits.MemoryBytes, err = strconv.ParseUint(content, 10, 64); err != nil {
			return nil, fmt.Errorf("read limits: invalid memory.max %q: want bytes or max",
				words.Abridge(content))
		}
	}

	content := strings.TrimSpace(string(cpu))
	if quota, period, _ := strings.Cut(content, " "); quota != "max" {
		q, errQ := strconv.ParseUint(quota, 10, 32)
		p, errP := strconv.ParseUint(period, 10, 32)
		if errQ != nil || errP != nil || p == 0 {
			return nil, fmt.Errorf("read limits: invalid cpu.max %q: want quota and period",
				words.Abridge(content))
		}

		limits.MilliCPU = int(q * 1000 / p)
	}

	return &limits, nil
}

// parsePhysBits returns the physical address bits of the CPUs from the content of
// /proc/cpuinfo, "address sizes : 46 bits physical, 48 bits virtual"; 0 without that line,
// as on aarch64.
func parsePhysBits(cpuinfo string) int {
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "address sizes" {
			continue
		}

		digits, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		if bits, err := strconv.ParseUint(digits, 10, 8); err == nil && bits <= 64 {
			return int(bits)
		}
	}

	return 0
}
