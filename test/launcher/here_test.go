//go:build linux && lane

package launcher

import (
	"fmt"
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
	// options is "once" if each definition has the hook's options and overrides of QEMU once,
	// "lost" if none has them, "" if there are none.
	options string
	// unchanged: the hook answers call 1 with its domain.
	unchanged bool
	host      string // of a VM with one device, if not that of the VM hgx
	// syncs has a part of each error that virt-handler gets, "" where the VM runs.
	syncs []string
}

const (
	// KubeVirt 1.9.0 asks with placeholder interfaces and without them, or, for a VM
	// with four interfaces or more, without and with extra root ports.
	twice = 2
	// devices that are passed to the VM hgx, and the switches that they are under on the host.
	devices, switches = 16, 8
	// libvirt looks for the devices when it starts the domain. This machine has none.
	noDevice = "host doesn't support passthrough of host PCI devices"
	noMdev   = "Mediated host device assignment requires VFIO support"
)

func rows() []row {
	mirror, strict, keep := []string{
		"--layout", "mirror",
	}, []string{
		"--layout", "mirror", "--strict",
	}, []string{"--layout", "keep", "--lock", "layout,dry-run"}

	none, root, numa := []string{}, []string{
		"--layout", "root",
	}, []string{"--layout", "numa", "--strict"}

	speed := append(slices.Clone(mirror), "--port-speed", "host", "--mmio-window", "auto")
	return []row{
		{name: "plain/hook", record: "plain", boots: true, vm: plain, calls: twice, syncs: []string{
			"",
		}, set: func(p *pod) {
			p.Hook = none
		}},
		{name: "plain/plugin", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) {
			p.Plugin = none
		}},
		{name: "plain/both", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) {
			p.Hook, p.Plugin = none, none
		}},
		{name: "plain/UEFI", boots: true, vm: plain, calls: twice, syncs: []string{
			"",
		}, set: func(p *pod) {
			p.Hook = none
			at(p.VMI.(object), "spec", "domain", "firmware")["bootloader"] = object{
				"efi": object{"secureBoot": false},
			}
		}},
		{name: "plain/strict", vm: plain, calls: twice, syncs: []string{""}, set: func(p *pod) {
			p.Hook = strict
		}},

		{name: "hgx/hook", record: "hgx", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook = mirror
		}},
		// KubeVirt 1.9.0 does not ask a plugin for a VM with PCI hostdevs (kubevirt issue 18861).
		{name: "hgx/plugin", vm: hgx, calls: 1, syncs: []string{
			"Missing 'mode' attribute",
		}, set: func(p *pod) {
			p.Plugin = mirror
		}},
		{name: "hgx/both", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook, p.Plugin = keep, mirror
		}},
		{name: "hgx/strict", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook = strict
		}},
		{name: "hgx/recipe", record: "recipe", vm: recipe, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(*pod) {}},
		{name: "hgx/refused", vm: hgx, calls: 2, syncs: []string{
			"no-guest-numa", "no-guest-numa",
		}, set: func(p *pod) {
			p.Hook, p.Syncs = numa, 2
			withoutCells(p)
		}},
		{name: "hgx/refused by the plugin", vm: hgx, calls: 1, syncs: []string{
			"no-guest-numa",
		}, set: func(p *pod) {
			p.Hook, p.Plugin = keep, numa
			withoutCells(p)
		}},
		// Versions of the hooks without Shutdown, and for the last without PreCloudInitIso.
		{name: "hgx/v1alpha2", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook = append(slices.Clone(mirror), "--version", "v1alpha2")
		}},
		{name: "hgx/v1alpha1", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook = append(slices.Clone(mirror), "--version", "v1alpha1")
		}},
		{name: "hgx/two hooks", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook, p.Second = mirror, mirror
		}},

		// KubeVirt's types lose qemu:commandline and qemu:override between calls. With another
		// Plugin in the cluster KubeVirt loses it from a hook's answer, too (virtwrap/util,
		// ApplySidecarHooks), and hotplug='off' (virtwrap/api/schema.go, ControllerTarget), but
		// not the places. If it has fixed that, correct docs/install.md.
		{name: "options/hook", options: "once", vm: hgx, calls: twice, syncs: []string{
			noDevice,
		}, plan: mirror, set: func(p *pod) {
			p.Hook = speed
		}},
		{name: "options/plugin after another", options: "once", vm: hgx, calls: twice,
			syncs: []string{
				noDevice,
			}, plan: mirror, set: func(p *pod) {
				p.Hook, p.Plugin, p.Other = speed, speed, "before"
			}},
		{name: "options/plugin before another", options: "once", vm: hgx, calls: twice,
			syncs: []string{
				noDevice,
			}, plan: mirror, set: func(p *pod) {
				p.Hook, p.Plugin, p.Other = speed, speed, "after"
			}},
		{name: "options/hook and another Plugin", options: "lost", vm: hgx, calls: twice,
			syncs: []string{
				noDevice,
			}, plan: mirror, set: func(p *pod) {
				p.Hook, p.Other = speed, "after"
			}},

		{name: "mdev/plugin root", vm: vgpu, host: vgpuFile, calls: twice, syncs: []string{
			noMdev,
		}, plan: root, set: func(p *pod) {
			p.Plugin = root
		}},
		{name: "mdev/plugin mirror", vm: vgpu, host: vgpuFile, calls: twice, syncs: []string{
			noMdev,
		}, plan: mirror, set: func(p *pod) {
			p.Plugin = mirror
		}},

		// KubeVirt ignores the answers of a migration's target but not an error.
		{name: "target/hook", vm: hgx, calls: 1, syncs: []string{
			"",
		}, unchanged: true, set: func(p *pod) {
			p.Hook = numa
			migrates(p)
		}},
		{name: "target/plugin", vm: vgpu, calls: 1, syncs: []string{""}, set: func(p *pod) {
			p.Plugin = numa
			migrates(p)
		}},
	}
}

// migrates makes the pod the target of a migration, of a VM that would be refused.
func migrates(p *pod) {
	p.Target = true
	at(p.VMI.(object), "status")["migrationState"] = object{
		"migrationUid": "1", "targetPod": "virt-launcher-testvm-x",
	}
	withoutCells(p)
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
		"plugin restarts": testPluginRestarts, "placeholders": testPlaceholders,
		"wrong hook": testWrongHook, "cloud-init": testCloudInit, "pairs": testPairs,
		"switch ports": testSwitchPorts, "older QEMU": testOlderQEMU,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// testBoots: each VM starts, or does not, as in its row.
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

	for _, flags := range []*[]string{&p.Hook, &p.Second, &p.Plugin} {
		if *flags != nil {
			*flags = append(slices.Clone(*flags), "--sysfs", "/lab/host.txtar")
		}
	}

	return p
}

// faults returns what is not as it should be.
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

	same := func(got, want string) bool {
		return strings.Contains(got, want) && (want == "") == (got == "")
	}

	if !slices.EqualFunc(o.Syncs, r.syncs, same) {
		add("errors that virt-handler gets (-want a part +got)", cmp.Diff(r.syncs, o.Syncs))
	}

	add(movedFault, strings.Join(o.moved(t), "\n"))
	if r.plan != nil {
		add(planFault, r.misplaced(t, l, o))
	}

	// Each container ends with status 0, the plugin's at SIGTERM.
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
	if r.unchanged {
		add("answer to call 1 (-input +answer)",
			cmp.Diff(o.inputs[0], string(o.file(t, "answer1.xml"))))
	}

	for _, domain := range o.defined {
		for option, want := range map[string]int{
			"string=4194304,id=hook-sidecar-mmio-window": 1, `value="cxl-upstream"`: switches,
			`value="cxl-downstream"`: devices,
		} {
			if r.options == "lost" {
				want = 0
			}
			if n := strings.Count(domain, option); r.options != "" && n != want {
				add("options of QEMU",
					fmt.Sprintf("%s is there %d times, want %d", option, n, want))
			}
		}

		if r.options != "" && strings.Contains(domain, `hotplug="off"`) != (r.options == "once") {
			add("hotplug='off'", "want it where the options are")
		}
	}

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
	host, want := hgxFile, devices
	if r.host != "" {
		host, want = r.host, 1
	}

	planned := o.planned(t, l, append([]string{"--sysfs", host}, r.plan...))
	if len(planned) != want {
		t.Errorf("%d devices are planned, want %d", len(planned), want)
	}

	hostdevs, _ := places(t, string(o.file(t, "defined.xml")))
	return cmp.Diff(planned, hostdevs)
}
