package main

import (
	"fmt"
	"io/fs"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/speed"
	"hook-sidecar/testdata"
)

// BenchmarkOnDefineDomain calls the program, and an echo of the domain in a process
// of its own, in turn: with the sample of 8 GPUs and 8 NICs, and with 64 devices,
// two under each switch. Package speed describes it.
func BenchmarkOnDefineDomain(b *testing.B) {
	bench := speed.NewBench(b)
	for _, count := range []int{16, 64} {
		vm, host := benchVM(b, count)
		directory := speed.Directory(b, host)
		for _, layout := range []string{"numa", "mirror", "auto"} {
			b.Run(fmt.Sprintf("devices=%d/layout=%s", count, layout), func(b *testing.B) {
				bench.Run(b, vm, layout, directory)
			})
		}
	}
}

// benchVM returns the sample for 16 devices, else a made one, and its host.
func benchVM(b *testing.B, count int) (vm speed.VM, sysfs fs.FS) {
	b.Helper()
	if count != 16 {
		lines, addresses := speed.Host(count)
		vm, err := speed.VMWith(addresses)
		expect.NoError(b, err)
		return vm, expect.Host(b, lines)
	}

	vm, err := speed.Demo()
	expect.NoError(b, err)
	snapshot, err := testdata.Demo.ReadFile(testdata.DemoHost)
	expect.NoError(b, err)
	if sysfs, err = host.ParseSnapshot(snapshot); err != nil {
		b.Fatal(err)
	}

	return vm, sysfs
}

// BenchmarkMutate measures a call without its process, for profiles:
//
//	go test -run '^$' -bench Mutate/devices=64 -cpuprofile cpu.out ./cmd/hook-sidecar
func BenchmarkMutate(b *testing.B) {
	for _, count := range []int{16, 64} {
		vm, files := benchVM(b, count)
		sysfs, err := host.OpenSysfs(speed.Directory(b, files))
		expect.NoError(b, err)
		b.Run(fmt.Sprintf("devices=%d", count), func(b *testing.B) {
			m := plan.Planner{Sysfs: sysfs}
			var result plan.Result
			for b.Loop() {
				result = m.Answer(plan.Request{Domain: vm.Domain, VMI: vm.VMI})
			}

			if result.Err != nil || len(result.Plan.Devices) != count {
				b.Fatalf("%d devices, error %v", len(result.Plan.Devices), result.Err)
			}
		})
	}
}
