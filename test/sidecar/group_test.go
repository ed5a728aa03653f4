//go:build linux

package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// group is a control group with a limit, of version 1 or 2.
type group struct{ dir string }

// setting is a file of a control group and its value.
type setting struct{ file, value string }

// memoryGroup limits a program to a sidecar's memory, without swap.
func memoryGroup(t testing.TB) group {
	bytes := strconv.Itoa(memoryBytes)
	return newGroup(t, "memory", []setting{
		{"memory.limit_in_bytes", bytes},
	}, []setting{{"memory.max", bytes}, {"memory.swap.max", "0"}})
}

// cpuGroup limits a program to a sidecar's CPU time.
func cpuGroup(t testing.TB) group {
	const period = 100_000 // microseconds, as the kubelet sets it
	quota := milliCPU * period / 1000
	return newGroup(t, "cpu", []setting{
		{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(quota)},
	},
		[]setting{{"cpu.max", fmt.Sprintf("%d %d", quota, period)}})
}

// newGroup makes a group, or skips the test where this machine does not allow one.
func newGroup(t testing.TB, controller string, v1, v2 []setting) group {
	t.Helper()
	g, settings := group{filepath.Join("/sys/fs/cgroup", controller)}, v1
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g, settings = group{"/sys/fs/cgroup"}, v2
	}

	dir, err := os.MkdirTemp(g.dir, "hook-sidecar-")
	if err != nil {
		t.Skipf("no control group can be made: %v", err)
	}

	g.dir = dir
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})

	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.value), 0o644); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				t.Skipf("no limit of %s can be set: %v", controller, err)
			}
			t.Fatal(err)
		}
	}

	return g
}
