package env

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Limits are the resource limits of a container.
type Limits struct {
	MemoryBytes uint64 // memory.max, 0 for none
	MilliCPU    int    // cpu.max in thousandths of a CPU, 0 for none
}

// ReadLimits reads the limits of a cgroup and of those above it, the lowest of which
// applies. fsys is the cgroup v2 file system (kernel
// Documentation/admin-guide/cgroup-v2.rst); membership is the content of /proc/self/cgroup,
// which names the cgroup. It returns nil without an error when no cgroup shows limits, as
// with cgroup v1.
func ReadLimits(fsys fs.FS, membership string) (*Limits, error) {
	dir := "."
	for line := range strings.Lines(membership) {
		if group, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::/"); v2 {
			dir = path.Clean(group)
		}
	}
	if !fs.ValidPath(dir) {
		dir = "." // the cgroup is outside the container's view
	}
	var limits *Limits
	for {
		memory, cpu, err := groupLimits(fsys, dir)
		switch {
		case err == nil:
			if limits == nil {
				limits = &Limits{}
			}
			limits.MemoryBytes = lower(limits.MemoryBytes, memory)
			limits.MilliCPU = lower(limits.MilliCPU, cpu)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		if dir == "." {
			return limits, nil
		}
		dir = path.Dir(dir)
	}
}

// lower returns the lower of two limits, where 0 means no limit.
func lower[T uint64 | int](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func groupLimits(fsys fs.FS, dir string) (memory uint64, cpu int, err error) {
	text, err := fs.ReadFile(fsys, path.Join(dir, "memory.max"))
	if err != nil {
		return 0, 0, fmt.Errorf("read limits: %w", err)
	}
	if content := strings.TrimSpace(string(text)); content != "max" {
		if memory, err = strconv.ParseUint(content, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("read limits: invalid memory.max %q: want bytes or max", topology.Abridge(content))
		}
	}
	text, err = fs.ReadFile(fsys, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0, 0, fmt.Errorf("read limits: %w", err)
	}
	cpu, err = milliCPU(strings.TrimSpace(string(text)))
	return memory, cpu, err
}

// milliCPU parses cpu.max: a quota and a period, both in microseconds.
func milliCPU(content string) (int, error) {
	quota, period, _ := strings.Cut(content, " ")
	if quota == "max" {
		return 0, nil
	}
	q, errQ := strconv.ParseUint(quota, 10, 32)
	p, errP := strconv.ParseUint(period, 10, 32)
	if errQ != nil || errP != nil || p == 0 {
		return 0, fmt.Errorf("read limits: invalid cpu.max %q: want quota and period", topology.Abridge(content))
	}
	return int(q * 1000 / p), nil
}

// ParsePhysBits returns the physical address bits of the CPUs from the content of
// /proc/cpuinfo, "address sizes : 46 bits physical, 48 bits virtual"; 0 without that line,
// as on aarch64.
func ParsePhysBits(cpuinfo string) int {
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
