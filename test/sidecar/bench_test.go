//go:build linux

package sidecar

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"hook-sidecar/pkg/hooks"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/speed"
)

// startsPerRound is how many programs BenchmarkFirstCall starts for one figure.
const startsPerRound = 11

// pollInterval is how often virt-launcher looks for sockets (KubeVirt
// pkg/hooks/manager.go). By the time of its first call a sidecar has the CPU time of
// a new period.
const pollInterval = 300 * time.Millisecond

// BenchmarkFirstCall measures the calls of a boot: those of a sidecar that has just
// started, with a sidecar's memory and CPU time. Figures are medians.
func BenchmarkFirstCall(b *testing.B) {
	needRoot(b)
	for _, devices := range []int{16, 64} {
		b.Run(fmt.Sprintf("devices=%d", devices), func(b *testing.B) {
			lines, addresses := speed.Host(devices)
			vm, err := speed.VMWith(addresses)
			expect.NoError(b, err)
			dir := root(b, lines)
			groups := []group{memoryGroup(b), cpuGroup(b)}
			figures := map[string][]float64{}
			for b.Loop() {
				for range startsPerRound {
					boot(b, dir, groups, vm, figures)
				}
			}

			b.ReportMetric(0, "ns/op") // of all starts with their pauses
			for unit, values := range figures {
				slices.Sort(values)
				b.ReportMetric(values[len(values)/2], unit)
			}
		})
	}
}

// boot starts a sidecar, makes the calls of a boot and notes what they take.
func boot(b *testing.B, dir string, groups []group, vm speed.VM, figures map[string][]float64) {
	b.Helper()
	note := func(unit string, value float64) { figures[unit] = append(figures[unit], value) }
	<-time.After(pollInterval) // the sidecar before has used this period's CPU time
	s := start(b, dir, groups)
	client, ready := s.dial(b)
	note("start-ms", milliseconds(ready))
	<-time.After(pollInterval)
	note("rest-MiB", s.kib(b, "RssAnon")/1024)

	for _, unit := range []string{"first-ms", "second-ms", "third-ms"} {
		began := time.Now()
		reply, err := client.OnDefineDomain(b.Context(), hooks.V1alpha3, vm.Domain, vm.VMI)
		if err != nil || len(reply) <= len(vm.Domain) {
			b.Fatalf("%d bytes, %v\n%s", len(reply), err, s.log)
		}

		note(unit, milliseconds(time.Since(began)))
	}

	note("peak-MiB", s.kib(b, "VmHWM")/1024)
	note("own-peak-MiB", s.peakMiB(b))
	s.end(b)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
