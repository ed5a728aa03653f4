package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// most is the most devices that a text may have.
const most = 1024

// many returns a machine with n devices, half of them NICs, 31 at each PCIe root, and its links.
func many(tb testing.TB, n int, links string) *pastes.Machine {
	tb.Helper()
	var b strings.Builder
	b.WriteString(links + "cpus 0 0-7\n")
	for i := range n {
		if i%31 == 0 {
			fmt.Fprintf(&b, "pci0000:%02x node=0\n", i/31)
		}

		kind := "gpu ids=10de:2330"
		if i >= n/2 {
			kind = "nic ids=15b3:1021"
		}
		fmt.Fprintf(&b, "  0000:%02x:%02x.0 %s\n", i/31, i%31+1, kind)
	}

	return pastes.Parse(tb, b.String())
}

// formatsOfBoth are the formats that show GPUs and NICs, and those of GPUs with a list of NICs.
func formatsOfBoth() (all []pastes.Format) {
	nics := pastes.Named("mst status -v")
	for _, f := range pastes.Formats {
		switch print := f.Print; {
		case f.GPUs && f.NICs:
			all = append(all, f)
		case f.GPUs && f.Addresses:
			f.Name += ", " + nics.Name
			f.Print = func(m *pastes.Machine) string { return print(m) + nics.Print(m) }
			all = append(all, f)
		}
	}

	return all
}

// TestManyDevices: 128 devices are read in every second format, with WHOLE=1 the most in each, but
// for texts beyond the limit.
func TestManyDevices(t *testing.T) {
	count := expect.Count(most/8, most)
	for _, links := range []string{"", "nvlink 18\n"} {
		machine := many(t, count, links)
		for i, f := range formatsOfBoth() {
			if !expect.IsSampled(i, 5) || links != "" && !f.Linked {
				continue
			}

			m, _, err := paste.Read([]byte(f.Print(machine)))
			if count == most && err != nil && strings.Contains(err.Error(), "the limit is 16 MiB") {
				continue
			}

			expect.NoError(t, err)
			v := verdict.New(m, nil)
			if len(v.GPUs) != count/2 || len(v.NICs) != count/2 {
				t.Errorf("%s, %q: %d GPUs, %d NICs", f.Name, links, len(v.GPUs), len(v.NICs))
			}
		}
	}
}

// BenchmarkManyDevices reads and judges a quarter of the most devices, and the most. What a verdict
// counts is pairs, so the time per pair stays the same.
func BenchmarkManyDevices(b *testing.B) {
	for _, f := range formatsOfBoth() {
		for _, n := range []int{most / 4, most} {
			text := []byte(f.Print(many(b, n, "")))
			var m paste.Machine
			b.Run(fmt.Sprintf("read/%s/%d", f.Name, n), func(b *testing.B) {
				for b.Loop() {
					var err error
					m, _, err = paste.Read(text)
					expect.NoError(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(text)), "ns/byte")
			})

			b.Run(fmt.Sprintf("judge/%s/%d", f.Name, n), func(b *testing.B) {
				for b.Loop() {
					verdict.New(m, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n*n), "ns/pair")
			})
		}
	}
}
