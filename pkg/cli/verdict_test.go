package cli_test

import (
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	return expect.File(t, filepath.Join("../../testdata", name))
}

// inputs are those of a sample on a host.
func inputs(t *testing.T, sample, snapshot string) (plan.Planner, plan.Request) {
	t.Helper()
	vmi, err := env.ParseVMI(read(t, "samples/"+sample+".vmi.json"))
	expect.NoError(t, err)
	sysfs, err := host.ParseSnapshot(read(t, "hosts/"+snapshot+".txtar"))
	expect.NoError(t, err)
	return plan.Planner{Sysfs: sysfs}, plan.Request{Domain: read(t, "samples/"+sample+".xml"), Parsed: vmi}
}

const (
	hgx  = "x86-2n8g-hgx-h100"
	dgx  = "02-8gpu-8nic-gate-off"
	one  = "01-single-gpu"
	add  = "add the hook to the VM (docs/install.md) and restart it"
	have = "restart the VM: the hook is in its pod"
)

func TestVerdict(t *testing.T) {
	noCells := reasons.NoGuestNUMA.Remedy() + " (no-guest-numa); then "
	for name, test := range map[string]struct {
		sample, host  string
		placed        policy.Layout // the domain is what this layout makes of the sample
		hasHook       bool
		verdict, todo string
	}{
		"without the hook":      {dgx, hgx, "", false, "0 of 120 pairs as on the host; with layout root 112, mirror 120", add},
		"the hook came later":   {dgx, hgx, "", true, "0 of 120 pairs as on the host; with layout root 112, mirror 120", have},
		"layout numa":           {dgx, hgx, policy.LayoutNUMA, true, "64 of 120 pairs as on the host, in a tree of layout numa; with layout root 112, mirror 120", have},
		"layout root":           {dgx, hgx, policy.LayoutRoot, true, "112 of 120 pairs as on the host, in a tree of layout root; with layout mirror 120", "nothing, or annotate the VM with hostdev.vm.kubevirt.io/layout: mirror; --layout mirror shows it"},
		"layout mirror":         {dgx, hgx, policy.LayoutMirror, false, "120 of 120 pairs as on the host, in a tree of layout mirror", "nothing: no layout shows more of the host"},
		"one GPU, no cells":     {one, hgx, "", false, "one device, which does not know its NUMA node", noCells + add},
		"the host is another's": {dgx, "x86-2n2g-t4-vgpu", "", false, "the node shows none of the 16 devices", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, request := inputs(t, test.sample, test.host)
			if test.placed != "" {
				request.Domain = m.Read(request).WithLayout(test.placed).Domain
			}
			r, err := cli.NewRunning(m.Read(request), test.hasHook)
			expect.NoError(t, err)
			if got := r.Verdict(); got != test.verdict {
				t.Errorf("verdict\n%s, want\n%s", got, test.verdict)
			}
			if got := r.ToDo(); test.todo != "" && got != test.todo {
				t.Errorf("to do\n%s, want\n%s", got, test.todo)
			}
		})
	}
}

// A VM whose own annotation names a layout is judged by it.
func TestVerdictOfAnnotation(t *testing.T) {
	m, request := inputs(t, dgx, hgx)
	request.Parsed.Annotations = map[string]string{policy.AnnotationPrefix + "layout": "mirror"}
	r, err := cli.NewRunning(m.Read(request), false)
	expect.NoError(t, err)
	if got, want := r.Verdict(), "0 of 120 pairs as on the host; with layout mirror 120"; got != want {
		t.Errorf("verdict %s, want %s", got, want)
	}
}

// A VM with the hook is judged by the hook's arguments.
func TestVerdictOfArguments(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		todo      string
	}{
		"none":          {nil, have},
		"the same":      {[]string{"--layout=numa"}, "nothing, or annotate the VM with hostdev.vm.kubevirt.io/layout: mirror; --layout mirror shows it"},
		"layout locked": {[]string{"--layout", "numa", "--lock", "strict,layout"}, "nothing, or set --layout=mirror in the arguments of the hook, which lock it; --layout mirror shows it"},
	} {
		t.Run(name, func(t *testing.T) {
			m, request := inputs(t, dgx, hgx)
			request.Domain = m.Read(request).WithLayout(policy.LayoutNUMA).Domain
			var err error
			m.Source, err = cli.HookPolicy(test.arguments)
			expect.NoError(t, err)
			r, err := cli.NewRunning(m.Read(request), true)
			expect.NoError(t, err)
			r.Locked = m.Locked
			if got := r.ToDo(); got != test.todo {
				t.Errorf("to do\n%s, want\n%s", got, test.todo)
			}
		})
	}
}
