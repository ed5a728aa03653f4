package atlas

import (
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
)

// Guest is a way to build the guest's tree.
type Guest struct {
	Title string
	Core  matrix.CoreTree       // KubeVirt's, "" for none
	Flags map[policy.Key]string // the hook's, nil for none
}

// Guests are the guests of the atlas: without anything, KubeVirt's, and the hook's.
var Guests = []Guest{Flat, Gate, PR17025, PR19104, Enhancement424, Hook, HookWithSpeed}

// The guests.
var (
	Flat           = Guest{Title: "flat", Core: matrix.Flat}
	Gate           = Guest{Title: "gate", Core: matrix.ExpanderPerCell}
	PR17025        = Guest{Title: "17025", Core: matrix.SwitchPerRoot}
	PR19104        = Guest{Title: "19104", Core: matrix.ExpanderPerRootPort}
	Enhancement424 = Guest{Title: "424", Core: matrix.ExpanderPerRoot}
	Hook           = Guest{Title: "hook", Flags: map[policy.Key]string{policy.KeyLayout: "auto"}}
	HookWithSpeed  = Guest{Title: "hook, `port-speed`", Flags: map[policy.Key]string{
		policy.KeyLayout: "auto", policy.KeyPortSpeed: "host"}}
)

// Domain returns the domain of a VM with the guest's tree, as virt-launcher passes it to libvirt.
func (g Guest) Domain(tb testing.TB, vm VM) []byte {
	tb.Helper()
	domain := matrix.Domain(vm.NUMA, vm.Devices)
	if g.Core != "" {
		var err error
		domain, err = g.Core.Domain(vm.Spots(), vm.NUMA, vm.Devices)
		expect.NoError(tb, err)
	}

	if g.Flags == nil {
		return domain
	}

	result := vm.read(domain, g.Flags).Plan()
	expect.NoError(tb, result.Err)
	return result.Domain
}

// read returns the planner of a VM.
func (vm VM) read(domain []byte, flags map[policy.Key]string) *plan.VM {
	planner := plan.Planner{Sysfs: vm.Sysfs, Details: true, Source: policy.Source{Flags: flags}}
	return planner.Read(plan.Request{Domain: domain})
}

// Figures are what the model of NCCL (pkg/consumers/ncclgraph) decides in a guest.
type Figures struct {
	placement.GPUDirect
	// what it believes of the slowest path, as a part of the slowest on the host
	Speed float64
	Pairs placement.PairCounts // of devices that are as far apart as on the host
	// pairs that are under several switches on the host and under one in the guest
	Merged int
}

// IsAsHost reports whether NCCL decides as on the host, and believes every path as fast.
func (f Figures) IsAsHost() bool {
	const rounding = 0.99
	return f.Guest == f.Host && f.Right == f.GPUs && f.Speed > rounding
}

// Figures returns the figures of a VM's guest, by its domain.
func (g Guest) Figures(tb testing.TB, vm VM) Figures {
	tb.Helper()
	p := g.current(tb, vm)
	return Figures{p.GPUDirect(), p.PathSpeed(), p.Pairs(), p.MergedPairs()}
}

// Consumers returns what the consumers of the tree decide in a VM's guest, by their models.
func (g Guest) Consumers(tb testing.TB, vm VM) []consumers.Tally {
	tb.Helper()
	return g.current(tb, vm).Consumers()
}

// Programs returns, for each program that asks the tree, the GPUs about which it decides in a VM's
// guest as on the host, by the models.
func (g Guest) Programs(tb testing.TB, vm VM) []consumers.Program {
	tb.Helper()
	return g.current(tb, vm).Programs()
}

// current returns the plan of the guest as it is.
func (g Guest) current(tb testing.TB, vm VM) *placement.Plan {
	tb.Helper()
	current := vm.read(g.Domain(tb, vm), nil).Current()
	expect.NoError(tb, current.Err)
	return current.Plan
}
