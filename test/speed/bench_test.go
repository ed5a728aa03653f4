package speed_test

import (
	"fmt"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/speed"
)

// BenchmarkGrowth: the time per device should not grow with the number of devices,
// and that of a call not with what else the host has.
func BenchmarkGrowth(b *testing.B) {
	bench := speed.NewBench(b)
	for _, count := range []int{1, 10, 50, 100, 200} {
		b.Run(fmt.Sprintf("devices=%d", count), func(b *testing.B) { grow(b, bench, count, "") })
	}

	for _, others := range []int{0, 4096} {
		b.Run(fmt.Sprintf("devices=16/functions=%d", others), func(b *testing.B) {
			grow(b, bench, 16, speed.Functions(others))
		})
	}
}

func grow(b *testing.B, bench *speed.Bench, count int, others string) {
	host, addresses := speed.Host(count)
	vm, err := speed.VMWith(addresses)
	expect.NoError(b, err)
	median := bench.Run(b, vm, "numa", speed.Directory(b, expect.Host(b, host+others)))
	b.ReportMetric(float64(median.Nanoseconds())/float64(count), "ns/device")
}
