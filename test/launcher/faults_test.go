//go:build linux && lane

package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// kill is what a pod loses, and what follows.
type kill struct {
	fault
	calls    int    // of the hooks, with those of tries after the kill
	sync     string // a part of the last of three errors that virt-handler gets, "" for none
	held     bool   // libvirt holds the domain, with the planned places
	ends     map[string]int
	leftover bool // the hook's socket
}

const (
	gone    = "connection refused" // nobody serves the launcher's socket
	noReply = "context deadline exceeded"
	killed  = 128 + 9
)

func kills() []kill {
	fine := map[string]int{"compute": 0, "hook-sidecar-1": 0}
	noHook := map[string]int{"compute": 0, "hook-sidecar-1": killed}

	// virt-launcher-monitor reports -1
	noLauncher := map[string]int{"compute": 255, "hook-sidecar-1": 0}
	noPod := map[string]int{"compute": killed, "hook-sidecar-1": 0}
	return []kill{
		// The hook is not asked again: a hook sidecar is not restarted. What call 1 has
		// defined is started by the next try.
		{fault: fault{
			1, "input", "kill-hook-sidecar",
		}, calls: 3, sync: noReply, ends: noHook, leftover: true},
		{fault: fault{
			1, "answer", "kill-hook-sidecar",
		}, calls: 2, sync: noDevice, held: true, ends: noHook, leftover: true},
		{fault: fault{
			2, "input", "kill-hook-sidecar",
		}, calls: 2, sync: noDevice, held: true, ends: noHook, leftover: true},
		{fault: fault{
			2, "answer", "kill-hook-sidecar",
		}, calls: 2, sync: noDevice, held: true, ends: noHook, leftover: true},
		// virt-launcher starts libvirt again. Before call 1 has defined the domain the
		// next try begins anew, after that it starts what is there.
		{fault: fault{
			1, "input", "kill-libvirtd",
		}, calls: 3, sync: noDevice, held: true, ends: fine},
		{fault: fault{
			1, "answer", "kill-libvirtd",
		}, calls: 3, sync: noDevice, held: true, ends: fine},
		{fault: fault{
			2, "input", "kill-libvirtd",
		}, calls: 2, sync: noDevice, held: true, ends: fine},
		{fault: fault{
			2, "answer", "kill-libvirtd",
		}, calls: 2, sync: noDevice, held: true, ends: fine},
		// The pod fails, and the hook ends with status 0. A new pod begins anew.
		{fault: fault{1, "input", "kill-virt-launcher"}, calls: 1, sync: gone, ends: noLauncher},
		{fault: fault{2, "answer", "kill-virt-launcher"}, calls: 2, sync: gone, ends: noLauncher},
		{fault: fault{
			1, "answer", "kill-virt-launcher-monitor",
		}, calls: 1, sync: gone, ends: noPod},
		{fault: fault{2, "input", "kill-virt-launcher-monitor"}, calls: 2, sync: gone, ends: noPod},
	}
}

// testKills: what is left, and how the next try ends, after the loss of a process
// between two calls.
func testKills(t *testing.T, l lab) {
	for _, k := range kills() {
		t.Run(fmt.Sprintf("%s at %s %d", k.Do, k.At, k.Call), func(t *testing.T) {
			t.Parallel()
			r := row{vm: hgx, plan: []string{"--layout", "mirror"}, set: func(p *pod) {
				p.Hook, p.Fault, p.Syncs = []string{"--layout", "mirror"}, k.fault, 3
			}}

			o := l.here(t, r.pod(t))
			if last := o.last(); len(o.inputs) != k.calls || !strings.Contains(last, k.sync) {
				t.Errorf("%d calls, then %q, want %d and %q", len(o.inputs), last, k.calls, k.sync)
			}

			if !maps.Equal(o.Ends, k.ends) || len(o.Running) > 0 {
				t.Errorf("the containers end with %v, and %v do not, want %v", o.Ends, o.Running,
					k.ends)
			}

			if (len(o.Left) > 0) != k.leftover || o.has("defined.xml") != k.held {
				t.Errorf("left are the files %v and a domain (%t), want files (%t) and a "+
					"domain (%t)", o.Left, o.has("defined.xml"), k.leftover, k.held)
			}

			if k.held {
				if d := r.misplaced(t, l, o); d != "" {
					t.Errorf("libvirt's domain (-planned +defined):\n%s", d)
				}
			}
		})
	}
}

// testKillsOfRunning: a VM does not need its hook while it runs. It ends with its
// launcher, not with its libvirt.
func testKillsOfRunning(t *testing.T, l lab) {
	for program, ends := range map[string]map[string]int{
		"hook-sidecar":          {"compute": 0, "hook-sidecar-1": killed},
		"libvirtd":              {"compute": 0, "hook-sidecar-1": 0},
		"virt-launcher":         {"compute": 255, "hook-sidecar-1": 0},
		"virt-launcher-monitor": {"compute": killed, "hook-sidecar-1": 0},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			r := row{vm: plain, set: func(p *pod) {
				p.Hook, p.Fault = []string{}, fault{At: "running", Do: "kill-" + program}
			}}

			o := l.here(t, r.pod(t))
			if !maps.Equal(o.Ends, ends) || len(o.Running) > 0 ||
				!slices.Equal(o.Syncs, []string{""}) {
				t.Errorf("%q; the containers end with %v, and %v do not, want %v", o.Syncs, o.Ends,
					o.Running, ends)
			}
		})
	}
}

// testPluginRestarts: the kubelet restarts a plugin's sidecar, which replaces the
// socket of the killed one, and the boot goes on.
func testPluginRestarts(t *testing.T, l lab) {
	r := row{vm: hgx, plan: []string{
		"--layout", "mirror",
	}, calls: twice, syncs: []string{noDevice}, set: func(p *pod) {
		p.Hook, p.Plugin = []string{
			"--layout", "keep", "--lock", "layout",
		}, []string{"--layout", "mirror"}
		p.Fault = fault{2, "answer", "restart-plugin"}
	}}
	for _, fault := range r.faults(t, l, l.here(t, r.pod(t))) {
		t.Error(fault)
	}
}

// testPlaceholders: with placeholder interfaces KubeVirt 1.9.0 cannot start the
// domain of call 1, so a VM with less than four NICs is lost with its libvirt or hook
// between the calls.
func testPlaceholders(t *testing.T, l lab) {
	r := row{vm: plain, set: func(p *pod) {
		p.Hook, p.Fault, p.Syncs = []string{}, fault{2, "input", "kill-hook-sidecar"}, 3
	}}

	o := l.here(t, r.pod(t))
	if last := o.last(); !strings.Contains(last, "specified dev doesn't exist") {
		t.Errorf("%q", o.Syncs)
	}
}

// testWrongHook shows that the test can fail: it finds that the answer to call 2 has one
// port in the next slot.
func testWrongHook(t *testing.T, l lab) {
	for _, layout := range []string{"numa", "root", "switch", "mirror"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			r := row{vm: hgx, plan: []string{
				"--layout", layout,
			}, calls: twice, syncs: []string{noDevice}, set: func(p *pod) {
				p.Hook, p.Fault = []string{"--layout", layout}, fault{2, "answer", "shift"}
			}}

			mustFind(t, r.faults(t, l, l.here(t, r.pod(t))), movedFault, planFault)
		})
	}
}

// Faults that a wrong hook must lead to.
const (
	movedFault = "moved between the calls"
	planFault  = "libvirt's domain (-planned +defined)"
)

func mustFind(t *testing.T, faults []string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !slices.ContainsFunc(faults, func(fault string) bool {
			return strings.HasPrefix(fault, want)
		}) {
			t.Errorf("not found: %s:\n%s", want, strings.Join(faults, "\n"))
		}
	}
}
