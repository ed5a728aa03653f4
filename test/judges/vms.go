package judges

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/atlas"
	"hook-sidecar/test/machines"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/nccl"
)

// VM is a VM with all GPUs and NICs of a host, or with devices of a random one.
type VM struct {
	atlas.VM
	Host topology.CPU
}

// VMs returns the VMs of testdata/hosts, of the atlas and of random hosts from a seed on.
func VMs(tb testing.TB, seed uint64, random int) (all []VM) {
	tb.Helper()
	for _, name := range machines.Names(tb) {
		m := atlas.Machine{Title: name, File: "hosts/" + name + ".txtar"}
		all = append(all, vmOf(m.VM(tb)))
	}

	for _, m := range atlas.Machines {
		if strings.HasPrefix(m.File, "machines/") {
			all = append(all, vmOf(m.VM(tb)))
		}
	}

	for i := range uint64(random) {
		c := nccl.RandomCase(tb, seed+i, []string{nccl.Intel, nccl.AMD}[i%2])
		shown, _ := host.Read(c.Sysfs, nil, host.All)
		// In the host's order, in which auto measures the tree without the hook: NCCL breaks ties by
		// order, so that a domain in another order may have fewer wrong decisions.
		all = append(all, vmOf(atlas.VM{
			Machine: atlas.Machine{Title: c.Name}, Sysfs: c.Sysfs,
			Devices: slices.Sorted(slices.Values(c.Devices)), NUMA: matrix.CellPerNode(shown.Nodes),
		}))
	}

	return all
}

// vmOf returns a VM whose CPU is the one that the host's sysfs shows, or that is known of it.
func vmOf(vm atlas.VM) VM {
	shown, _ := host.Read(vm.Sysfs, nil, host.All)
	cpu := shown.CPU
	if cpu == (topology.CPU{}) && strings.HasPrefix(vm.CPU, "AuthenticAMD") {
		cpu.Vendor = topology.CPUVendorAMD
	}

	return VM{vm, cpu}
}

// Guest is a guest of a VM: the tree, and whether it has a cell per node of the host.
type Guest struct {
	atlas.Guest
	HasCells bool
}

// Guests returns the guests: without anything, those of KubeVirt, and those of each layout, with
// and without cells. Ports that have the host's links show in layouts with switches, and in what
// auto takes. KubeVirt places nothing without cells.
func Guests() (all []Guest) {
	for _, core := range append([]matrix.CoreTree{matrix.Flat}, matrix.CoreTrees...) {
		all = append(all, Guest{atlas.Guest{Title: string(core), Core: core}, true})
	}

	all = append(all, Guest{atlas.Guest{Title: string(matrix.Flat), Core: matrix.Flat}, false})
	for _, hasCells := range []bool{true, false} {
		for _, layout := range append(policy.TreeLayouts(), policy.LayoutAuto) {
			all = append(all, Guest{hook(layout, "default"), hasCells})
		}

		for _, layout := range []policy.Layout{policy.LayoutMirror, policy.LayoutAuto} {
			g := hook(layout, "host")
			g.Title += ", port-speed"
			all = append(all, Guest{g, hasCells})
		}
	}

	return all
}

// hook returns the hook's guest of a layout.
func hook(layout policy.Layout, speed string) atlas.Guest {
	return atlas.Guest{Title: string(layout), Flags: map[policy.Key]string{
		policy.KeyLayout: string(layout), policy.KeyPortSpeed: speed}}
}

// Title returns the guest's name in a table.
func (g Guest) Title() string {
	if g.HasCells {
		return g.Guest.Title
	}
	return g.Guest.Title + ", no cells"
}

// Domain returns the domain of the guest.
func (g Guest) Domain(tb testing.TB, vm VM) []byte {
	tb.Helper()
	if !g.HasCells {
		vm.NUMA = nil
	}
	return g.Guest.Domain(tb, vm.VM)
}

// String names the VM and its CPU's vendor.
func (vm VM) String() string {
	vendor := map[bool]string{true: "AMD"}[vm.Host.IsAMD()]
	return fmt.Sprintf("%s (CPU %s)", vm.Title, cmp.Or(vendor, "Intel"))
}
