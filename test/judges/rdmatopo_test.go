//go:build lane

package judges_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/peer"
	"hook-sidecar/test/judges"
	"hook-sidecar/test/pastes"
)

// The machines that rdma_topo knows, with a NIC and a GPU: both in a ConnectX-8's switches, and each
// on a root port of Vera; and one with the switches of Broadcom, which it does not know. ACS is that
// of the ports above the NIC, above the GPU, above both, and beside the GPU's own switch.
const (
	onSwitch = `cpus 0 0-3
pci0000:10 node=0
  0000:10:00.0 ids=8086:09a2 class=0x088000 acs=none
  0000:10:01.0 bridge ids=8086:0db0 acs=ROOT group=1
    0000:11:00.0 bridge ids=15b3:197c acs=none group=2
      0000:12:00.0 bridge ids=15b3:197c acs=NIC group=3
        0000:13:00.0 nic ids=15b3:1023 class=0x020700 ats=ATS group=10
      0000:12:01.0 bridge ids=15b3:197c acs=GPU group=4
        0000:14:00.0 bridge ids=15b3:197c acs=none group=5
          0000:15:00.0 bridge ids=15b3:197c acs=OWN group=6
            0000:16:00.0 gpu ids=10de:3182 ats=none group=GROUP
`
	onVera = `cpus 0 0-3
pci0000:00 node=0
  0000:00:00.0 bridge ids=10de:2f95 acs=NIC group=1
    0000:13:00.0 nic ids=15b3:1025 class=0x020700 ats=ATS group=10
pci0001:00 node=0
  0001:00:00.0 bridge ids=10de:2f95 acs=GPU group=2
    0000:16:00.0 gpu ids=10de:3182 ats=none group=GROUP
`
)

// registers are the registers of a machine that rdma_topo and the rule read.
type registers struct {
	nic, gpu, root, own topology.ACSBits
	ats, oneGroup       bool
}

// What Linux sets on each port, and NVIDIA above the NIC in addition.
const (
	asLinux = topology.SourceValidation | topology.RequestRedirect |
		topology.CompletionRedirect | topology.UpstreamForwarding
	asNVIDIA = asLinux | topology.DirectTranslated
	asVera   = asLinux &^ topology.CompletionRedirect // as rdma_topo wants it there
	allBits  = topology.DirectTranslated<<1 - 1
)

// in returns a machine with the registers.
func (r registers) in(t *testing.T, machine string) *pastes.Machine {
	t.Helper()
	acs := func(bits topology.ACSBits) string {
		if bits == 0 {
			return "off"
		}
		return strings.ToLower(strings.ReplaceAll(bits.String(), " ", ","))
	}

	ats, group := "none", "11"
	if r.ats {
		ats = "on"
	}
	if r.oneGroup {
		group = "10"
	}

	return pastes.Parse(t, strings.NewReplacer("acs=NIC", "acs="+acs(r.nic),
		"acs=GPU", "acs="+acs(r.gpu), "acs=ROOT", "acs="+acs(r.root), "acs=OWN", "acs="+acs(r.own),
		"ats=ATS", "ats="+ats, "group=GROUP", "group="+group).Replace(machine))
}

// String formats registers as rdma_topo prints them.
func (r registers) String() string {
	return fmt.Sprintf("NIC %07b, GPU %07b, root %07b, own %07b, ATS %t, one group %t", r.nic, r.gpu,
		r.root, r.own, r.ats, r.oneGroup)
}

// answer returns what the rule says of the NIC's path to the GPU.
func answer(t *testing.T, m *pastes.Machine) peer.Cause {
	t.Helper()
	read, problems := host.Read(m.Sysfs, nil, host.All|host.Details)
	if len(problems) > 0 {
		t.Fatal(problems)
	}

	facts := peer.Between(read, topology.PCIDevice(m.NICs()[0].Address),
		topology.PCIDevice(m.GPUs()[0].Address), peer.Guest{})
	return peer.Judge(facts).Cause
}

// states returns each value of each register beside the others as wanted, and random changes.
func states(random *rand.Rand, wanted registers) []registers {
	var all []registers
	for bits := range allBits + 1 {
		for _, set := range []func(*registers){
			func(r *registers) { r.nic = bits }, func(r *registers) { r.gpu = bits },
			func(r *registers) { r.root = bits }, func(r *registers) { r.own = bits },
		} {
			r := wanted
			set(&r)
			all = append(all, r)
		}
	}

	for range 1000 {
		r := wanted
		r.ats, r.oneGroup = r.ats == (random.IntN(4) > 0), random.IntN(4) == 0
		for _, register := range []*topology.ACSBits{&r.nic, &r.gpu, &r.root, &r.own} {
			for range random.IntN(3) {
				*register ^= 1 << random.IntN(7)
			}
		}
		all = append(all, r)
	}

	return all
}

// TestRDMATopo: no path that rdma_topo check --virt fails is ready, or on Vera works, over each value
// of each register and random states. It passes two bits that the rule does not: TB blocks what ATS
// translated, and nobody reads the vector of EC. A machine with other switches, which it refuses, has
// the answer of one that it knows.
func TestRDMATopo(t *testing.T) {
	programs := judges.New(t)
	random := rand.New(rand.NewPCG(seedOf(t), 0))
	all := states(random,
		registers{nic: asNVIDIA, gpu: asLinux, root: asLinux, own: asLinux, ats: true})
	ask := func(machine string, all []registers) (asked []*pastes.Machine, says []string) {
		var dumps []string
		for _, r := range all {
			m := r.in(t, machine)
			asked, dumps = append(asked, m), append(dumps, pastes.RDMATopo(m))
		}
		return asked, programs.RDMATopo(t, dumps)
	}

	passes := map[peer.Cause]bool{
		peer.CauseDirect: true, peer.CauseTranslationBlocked: true, peer.CauseEgressControl: true,
	}
	count := map[string]int{}
	on, says := ask(onSwitch, all)
	for i, m := range on {
		cause := answer(t, m)
		count[says[i]+", "+string(cause)]++
		isReady := cause.Readiness() == peer.Ready
		if says[i] == "fail" && isReady || says[i] == "ok" && !passes[cause] {
			t.Errorf("%s: rdma_topo says %s, the rule %s", all[i], says[i], cause)
		}
	}

	vera := states(random, registers{nic: asVera, gpu: asVera})
	on, says = ask(onVera, vera)
	for i, m := range on {
		cause := answer(t, m)
		count["Vera: "+says[i]+", "+string(cause)]++
		if says[i] != map[bool]string{true: "ok", false: "fail"}[cause == peer.CauseVera] {
			t.Errorf("Vera, %s: rdma_topo says %s, the rule %s", vera[i], says[i], cause)
		}
	}

	some := all[:len(all)/8]
	on, says = ask(strings.ReplaceAll(onSwitch, "15b3:197c", "1000:c030"), some)
	for i, m := range on {
		known, cause := answer(t, some[i].in(t, onSwitch)), answer(t, m)
		if !strings.Contains(says[i], "No supported topology") || cause != known {
			t.Errorf("Broadcom, %s: rdma_topo says %s, the rule %s, of ConnectX's %s", all[i], says[i],
				cause, known)
		}
	}

	t.Logf("%d states: %v", len(all), count)
	if count["ok, direct"] < 10 || count["Vera: ok, vera"] < 10 {
		t.Error("too few states pass")
	}
}
