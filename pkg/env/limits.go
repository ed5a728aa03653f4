package env

import (
	"cmp"
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
		group, err := groupLimits(fsys, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read limits: %w", err)
		case limits == nil:
			limits = &group
		default:
			limits.MemoryBytes = lower(limits.MemoryBytes, group.MemoryBytes)
			limits.MilliCPU = lower(limits.MilliCPU, group.MilliCPU)
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

// groupLimits reads memory.max, bytes or max, and cpu.max, a quota or max and a period, both in
// microseconds.
func groupLimits(fsys fs.FS, dir string) (limits Limits, err error) {
	memory, errMemory := fs.ReadFile(fsys, path.Join(dir, "memory.max"))
	cpu, errCPU := fs.ReadFile(fsys, path.Join(dir, "cpu.max"))
	if err := cmp.Or(errMemory, errCPU); err != nil {
		return Limits{}, err
	}
	if content := strings.TrimSpace(string(memory)); content != "max" {
		if limits.MemoryBytes, err = strconv.ParseUint(content, 10, 64); err != nil {
			return Limits{}, fmt.Errorf("invalid memory.max %q: want bytes or max", topology.Abridge(content))
		}
	}
	content := strings.TrimSpace(string(cpu))
	if quota, period, _ := strings.Cut(content, " "); quota != "max" {
		q, errQ := strconv.ParseUint(quota, 10, 32)
		p, errP := strconv.ParseUint(period, 10, 32)
		if errQ != nil || errP != nil || p == 0 {
			return Limits{}, fmt.Errorf("invalid cpu.max %q: want quota and period", topology.Abridge(content))
		}
		limits.MilliCPU = int(q * 1000 / p)
	}
	return limits, nil
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
