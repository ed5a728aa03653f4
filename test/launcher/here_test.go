//go:build linux

package launcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/boot"
)

// row is a VM that a launcher starts, and what happens to it.
type row struct {
	name  string
	vm    func(*testing.T) pod
	set   func(*pod)
	plan  []string // flags with which `explain` gives the plan; nil where nothing is placed
	calls int      // of the hooks
	boots bool     // the guest runs to its end
	// record is the directory of testdata/launcher with the calls, for test/readback.
	record string
	// syncs has a part of each error that virt-handler gets, "" where the VM runs.
	syncs []string
}

const (
	// KubeVirt 1.9.0 asks with placeholder interfaces and without them, or, for a VM
	// with four interfaces or more, without and with extra root ports.
	twice = 2
	// devices that are passed to the VM hgx.
	devices = 16
	// libvirt looks for the devices when it starts the domain. This machine has none.
	noDevice = "host doesn't support passthrough of host PCI devices"
)

func rows() []row {
	mirror, strict, keep := []string{"--layout", "mirror"}, []string{"--layout", "mirror", "--strict"}, []string{"--layout", "keep", "--lock", "layout,dry-run"}
	none, numa := []string{}, []string{"--layout", "numa", "--strict"}
	return []row{
		{name: "plain/hook", record: "plain", boots: true, vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) { p.Hook = none }},
		{name: "plain/plugin", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) { p.Plugin = none }},
		{name: "plain/both", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) { p.Hook, p.Plugin = none, none }},
		{name: "plain/UEFI", boots: true, vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) {
			p.Hook = none
			at(p.VMI.(object), "spec", "domain", "firmware")["bootloader"] = object{"efi": object{"secureBoot": false}}
		}},
		{name: "plain/strict", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) { p.Hook = strict }},

		{name: "hgx/hook", record: "hgx", vm: hgx, calls: twice, syncs: []string{noDevice}, plan: mirror, set: func(p *pod) { p.Hook = mirror }},
		// KubeVirt 1.9.0 does not ask a plugin for a VM with PCI hostdevs (kubevirt issue 18861).
		{name: "hgx/plugin", vm: hgx, calls: 1, syncs: []string{"Missing 'mode' attribute"}, set: func(p *pod) { p.Plugin = mirror }},
		{name: "hgx/both", vm: hgx, calls: twice, syncs: []string{noDevice}, plan: mirror, set: func(p *pod) { p.Hook, p.Plugin = keep, mirror }},
		{name: "hgx/strict", vm: hgx, calls: twice, syncs: []string{noDevice}, plan: mirror, set: func(p *pod) { p.Hook = strict }},
		{name: "hgx/recipe", record: "recipe", vm: recipe, calls: twice, syncs: []string{noDevice}, plan: []string{"--layout", "root"}, set: func(*pod) {}},
		{name: "hgx/refused", vm: hgx, calls: 2, syncs: []string{"no-guest-numa", "no-guest-numa"}, set: func(p *pod) {
			p.Hook, p.Syncs = numa, 2
			withoutCells(p)
		}},
		{name: "hgx/refused by the plugin", vm: hgx, calls: 1, syncs: []string{"no-guest-numa"}, set: func(p *pod) {
			p.Hook, p.Plugin = keep, numa
			withoutCells(p)
		}},
	}
}

// withoutCells takes the guest's NUMA cells away.
func withoutCells(p *pod) {
	domain := at(p.VMI.(object), "spec", "domain")
	delete(at(domain, "cpu"), "numa")
	delete(at(domain, "memory"), "hugepages")
}

func TestLauncher(t *testing.T) {
	l := newLab(t)
	for name, test := range map[string]func(*testing.T, lab){
		"boots": testBoots, "kills": testKills, "kills of running": testKillsOfRunning,
		"plugin restarts": testPluginRestarts, "placeholders": testPlaceholders, "wrong hook": testWrongHook, "pairs": testPairs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// testBoots: each VM starts, or does not, as its row says.
func testBoots(t *testing.T, l lab) {
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			o := l.here(t, r.pod(t))
			for _, fault := range r.faults(t, l, o) {
				t.Error(fault)
			}
			if r.record != "" {
				o.compareRecord(t, r.record)
			}
		})
	}
}

func (r row) pod(t *testing.T) pod {
	t.Helper()
	p := r.vm(t)
	r.set(&p)
	p.Boots = r.boots
	for _, flags := range []*[]string{&p.Hook, &p.Plugin} {
		if *flags != nil {
			*flags = append(slices.Clone(*flags), "--sysfs", "/lab/host.txtar")
		}
	}
	return p
}

// faults are what is not as it should be.
func (r row) faults(t *testing.T, l lab, o outcome) (faults []string) {
	t.Helper()
	add := func(what, diff string) {
		if diff != "" {
			faults = append(faults, what+":\n"+diff)
		}
	}
	if len(o.inputs) != r.calls {
		add("calls", cmp.Diff(r.calls, len(o.inputs)))
	}
	same := func(got, want string) bool { return strings.Contains(got, want) && (want == "") == (got == "") }
	if !slices.EqualFunc(o.Syncs, r.syncs, same) {
		add("errors that virt-handler gets (-want a part +got)", cmp.Diff(r.syncs, o.Syncs))
	}
	add(movedFault, strings.Join(o.moved(t), "\n"))
	if r.plan != nil {
		add(planFault, r.misplaced(t, l, o))
	}
	// Each container ends with status 0, the plugin's when it is told to.
	running := []string{}
	for name, status := range o.Ends {
		if name == "plugin" {
			running = append(running, name)
		}
		if status != 0 {
			add("exit status of "+name, cmp.Diff(0, status))
		}
	}
	add("containers that had to be stopped", cmp.Diff(running, append([]string{}, o.Running...)))
	add("files that are left", cmp.Diff([]string{}, append([]string{}, o.Left...)))
	if r.boots {
		if _, err := boot.ReadGuest(o.file(t, "console")); err != nil {
			add("the guest", err.Error())
		}
	}
	// A launcher that never saw its domain does not call Shutdown.
	if o.Shutdown != o.has("defined.xml") {
		add("Shutdown was called", cmp.Diff(!o.Shutdown, o.Shutdown))
	}
	return faults
}

// misplaced compares the domain that libvirt holds with the plan.
func (r row) misplaced(t *testing.T, l lab, o outcome) string {
	t.Helper()
	planned := o.planned(t, l, append([]string{"--sysfs", hgxFile}, r.plan...))
	if len(planned) != devices {
		t.Errorf("%d devices are planned, want %d", len(planned), devices)
	}
	hostdevs, _ := places(t, string(o.file(t, "defined.xml")))
	return cmp.Diff(planned, hostdevs)
}
