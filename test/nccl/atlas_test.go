//go:build lane

package nccl_test

import (
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/test/atlas"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// TestAtlas: NCCL's own code gives the figures of docs/comparison.md, which are the model's: GPUs with
// GPUDirect RDMA, and with the host's NIC. Where the model believes a path to be slower than a
// tenth of the host's, so is NCCL's ring, and nowhere else. MI300X is judged by NCCL, too,
// as a tree.
func TestAtlas(t *testing.T) {
	l := newLab(t)
	for _, m := range atlas.Machines {
		t.Run(m.Title, func(t *testing.T) {
			t.Parallel()
			vm := m.VM(t)
			c := nccl.Case{Name: m.Title, Sysfs: vm.Sysfs, Devices: vm.Devices, NUMA: vm.NUMA,
				Hardware: nccl.Hardware{CPU: m.CPU, SM: m.SM, NVLinks: m.NVLinks, Mbps: m.Mbps}}
			machine, err := sys.Recorded(c.Sysfs)
			expect.NoError(t, err)
			if len(machine.NICs(c.Devices)) == 0 {
				t.Skip("the record has no NIC")
			}

			host := l.host(t, c)
			onHost, _ := count(host, host)
			for _, g := range atlas.Guests {
				in := l.domain(t, c, g.Domain(t, vm), "", false)
				direct, right := count(in, host)
				want := placement.GPUDirect{
					GPUs: len(host.GPUs), Host: onHost, Guest: direct, Right: right,
				}

				model := g.Figures(t, vm)
				expect.Same(t, want, model.GPUDirect, "%s (-NCCL +model)", g.Title)

				const tenth = 0.1
				ring := in.Outcome(host).Ring / host.Outcome(host).Ring
				t.Logf("%s: a ring of %.2f of the host's", g.Title, ring)
				if (ring < tenth) != (model.Speed < tenth) {
					t.Errorf("%s: a ring of %.2f, the model's path of %.2f", g.Title, ring,
						model.Speed)
				}
			}
		})
	}
}

// count returns how many GPUs use GPUDirect RDMA, and how many the host's NIC.
func count(in, host nccl.Decisions) (direct, right int) {
	chosen, onHost := choices(in), choices(host)
	for gpu, c := range chosen {
		if c.IsGDR {
			direct++
		}
		if c.NIC == onHost[gpu].NIC {
			right++
		}
	}

	return direct, right
}
