//go:build lane

package nccl_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
)

// everyVM runs a test for the VMs of all machines: of testdata/hosts, of published topology files,
// and of random hosts, 40 or the value of TREES.
func everyVM(t *testing.T, test func(t *testing.T, l lab, c nccl.Case)) {
	all := append(nccl.Cases(t), nccl.RecordedCases(t)...)
	random := 40
	if text := os.Getenv("TREES"); text != "" {
		var err error
		random, err = strconv.Atoi(text)
		expect.NoError(t, err)
	}

	for seed := range uint64(random) {
		all = append(all, nccl.RandomCase(t, seed, nccl.Intel))
	}

	l := newLab(t)
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			test(t, l, c)
		})
	}
}

// lowerRings are the VMs in which NCCL's own search finds a lower ring than in the domain as it
// came, though every path is as near or nearer.
var lowerRings = map[string]string{
	"rccl-8p-940vm": twoCPUs,
	"seed-1":        direct12,
	"seed-15":       direct12,
	"seed-27":       direct12,
	"seed-39":       direct12,
}

const twoCPUs = "7 channels of 20 GB/s with the guest's two CPUs, 8 with all devices at one CPU"

const direct12 = "all GPUs have GPUDirect RDMA, and the search finds fewer channels, of 12 GB/s"

// TestAuto: with no key at all no guest has fewer GPUs with GPUDirect RDMA, fewer GPUs with the
// host's NIC or a lower ring than the domain as it came, but for the exceptions above.
func TestAuto(t *testing.T) {
	everyVM(t, func(t *testing.T, l lab, c nccl.Case) {
		if !l.hasJob(t, c) {
			t.Skip("no job: it has no GPU, or one and no NIC")
		}

		host := l.host(t, c)
		came := l.domain(t, c, c.Domain, "", false).Outcome(host)

		// no guest has to have more than its host
		came.Ring = min(came.Ring, host.Outcome(host).Ring)
		auto := l.guest(t, c, form{
			name: "auto", flags: nccl.Flags{policy.KeyLayout: "auto"},
		}).Outcome(host)

		worse, why := below(auto, came), lowerRings[c.Name]
		if why != "" {
			if worse == "" {
				t.Errorf("it is no longer an exception: %s", why)
			}
			auto.Ring = came.Ring
			worse = below(auto, came)
		}

		if worse != "" {
			t.Errorf("auto has %s than the domain as it came\nauto %+v\ncame %+v\nhost %+v",
				worse, auto, came, host.Outcome(host))
		}
	})
}

// below says in what an outcome is below another one, "" in nothing.
func below(got, want nccl.Outcome) string {
	const rounding = 0.999
	switch {
	case got.GDR < want.GDR:
		return fmt.Sprintf("%d GPUs with GPUDirect RDMA, fewer (%d)", got.GDR, want.GDR)
	case got.Right < want.Right:
		return fmt.Sprintf("%d GPUs with the host's NIC, fewer (%d)", got.Right, want.Right)
	case got.Ring < want.Ring*rounding:
		return fmt.Sprintf("a ring of %g, lower (%g)", got.Ring, want.Ring)
	}

	return ""
}
