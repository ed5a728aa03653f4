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
	for _, host := range []struct{ name, others string }{
		{"functions=0", ""}, {"functions=2000", speed.Functions(2000)}, {"vfs=4096", speed.VirtualFunctions(4096)},
	} {
		b.Run("devices=16/"+host.name, func(b *testing.B) { grow(b, bench, 16, host.others) })
	}
}

func grow(b *testing.B, bench *speed.Bench, count int, others string) {
	host, addresses := speed.Host(count)
	vm, err := speed.VMWith(addresses)
	expect.NoError(b, err)
	median := bench.Run(b, vm, "numa", speed.Directory(b, expect.Host(b, host+others)))
	b.ReportMetric(float64(median.Nanoseconds())/float64(count), "ns/device")
}
