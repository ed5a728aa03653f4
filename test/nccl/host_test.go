//go:build lane

package nccl_test

import (
	"os"
	"strings"
	"testing"

	product "hook-sidecar/pkg/keys/nccl"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
)

// asHost returns the forms that give a guest the host's decisions.
func asHost(c nccl.Case) []form {
	p2p := c.Hardware.NVLinks == 0 // without NVLink the clique is part of it
	mirror := nccl.Flags{policy.KeyLayout: "mirror", policy.KeyPortSpeed: "host"}
	forms := []form{{"mirror, port-speed=host", mirror, false, p2p}}
	for _, layout := range policy.TreeLayouts() {
		flags := nccl.Flags{policy.KeyLayout: string(layout), policy.KeyNCCLTopology: "fwcfg"}
		forms = append(forms, form{string(layout) + " with the file", flags, true, p2p})
	}

	return forms
}

// otherwise are guests in which NCCL's search ends otherwise than on the host, with the same pairs.
var otherwise = map[string]string{
	// A cell's expander bus has the cell's GPUs one after the other, and the host's addresses
	// alternate between nodes. NCCL distributes GPUs over NICs that are equally near by the GPUs'
	// numbers, so 6 of 16 take the other NIC of their node.
	"rccl-16p1h-vm, numa with the file": "the guest's GPUs are in the order of cells",
}

// TestAsHost: with ports that speak mirror gives the host's pairs with GPUDirect RDMA, NICs, rings
// and channels; so does the topology file with every layout.
func TestAsHost(t *testing.T) {
	everyVM(t, func(t *testing.T, l lab, c nccl.Case) {
		if !l.hasJob(t, c) || c.IsCoarse {
			t.Skip("no job, or fewer cells than the host has nodes, which are NCCL's CPUs")
		}

		host := l.host(t, c)
		want := host.Outcome(host)
		for _, f := range asHost(c) {
			got := l.guest(t, c, f).Outcome(host)
			why := otherwise[c.Name+", "+f.name]
			switch {
			case why != "" && got == want:
				t.Errorf("%s: as the host, so it is no longer an exception: %s", f.name, why)
			case why == "" && got != want:
				t.Errorf("%s: not as the host\ngot  %+v\nwant %+v", f.name, got, want)
			}
		}
	})
}

// TestFiles: the parsers of NCCL and RCCL take each file that is theirs, without a warning.
func TestFiles(t *testing.T) {
	parsers := nccl.Parsers(t)
	for _, c := range nccl.Cases(t) {
		for _, layout := range policy.TreeLayouts() {
			planner := plan.Planner{Sysfs: c.Sysfs, Details: true,
				Source: policy.Source{Flags: nccl.Flags{policy.KeyLayout: string(layout)}}}
			result := planner.Read(plan.Request{Domain: c.Domain, VMI: c.VMI}).Plan()
			expect.NoError(t, result.Err)
			file := product.New(result.Plan)
			for _, parser := range parsers {
				says := parser.Parse(t, file.String())
				isRefused := strings.Contains(says, "wrong version")
				isTheirs := parser.IsRCCL() == (file.Library == product.RCCL)
				if isTheirs && says != "" || !isTheirs && !isRefused {
					t.Errorf("%s, %s: %s says %q of a file for %s", c.Name, layout,
						parser.Version, says, file.Library)
				}
			}
		}
	}
}

// TestJudge: a guest is judged by its own /sys, as it is after a boot, as by its domain.
func TestJudge(t *testing.T) {
	l := newLab(t)
	for _, c := range nccl.Cases(t) {
		if c.Name != "hgx-h100" && c.Name != "dgx-a100" {
			continue
		}

		f := form{flags: nccl.Flags{policy.KeyLayout: "mirror", policy.KeyPortSpeed: "host"}}
		machine := l.machine(t, c, l.plan(t, c, f).Domain)
		dir := t.TempDir()
		expect.NoError(t, machine.Write(dir))
		gpus, nics := machine.GPUs(c.Devices), machine.NICs(c.Devices)
		onHost, inGuest := l.library.Judge(t, c.Hardware, gpus, nics, c.Sysfs, os.DirFS(dir),
			machine.Devices)
		if onHost != inGuest || onHost.GDR != 8 {
			t.Errorf("%s: on the host %+v, in the guest %+v", c.Name, onHost, inGuest)
		}
	}
}
