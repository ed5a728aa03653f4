package cli_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	return expect.File(t, filepath.Join("../../../testdata", name))
}

// inputs returns the inputs of a sample on a host.
func inputs(t *testing.T, sample, snapshot string) (plan.Planner, plan.Request) {
	t.Helper()
	vmi, err := kubevirt.ParseVMI(read(t, "samples/"+sample+".vmi.json"))
	expect.NoError(t, err)
	sysfs, err := host.ParseSnapshot(read(t, "hosts/"+snapshot+".txtar"))
	expect.NoError(t, err)
	return plan.Planner{
		Sysfs: sysfs,
	}, plan.Request{Domain: read(t, "samples/"+sample+".xml"), Parsed: vmi}
}

const (
	cellsFirst = "give the guest NUMA cells: set dedicatedCpuPlacement, hugepages and " +
		"numa.guestMappingPassthrough in the VMI (no-guest-numa); then "

	hgx  = "x86-2n8g-hgx-h100"
	dgx  = "02-8gpu-8nic-gate-off"
	one  = "01-single-gpu"
	add  = "add the hook to the VM (docs/install.md) and restart it"
	have = "restart the VM: the hook is in its pod"

	flat  = "0 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; "
	roots = "0 of 8 GPUs: NCCL, UCX, P2PDMA as on the host; 8 of 8 GPUs: DRA, hwloc as on the host; "
	whole = "8 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; "
)

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		sample, host  string
		placed        policy.Layout // the sample as this layout places it
		hasHook       bool
		verdict, todo string
	}{
		"without the hook": {dgx, hgx, "", false, flat +
			"0 of 120 pairs of devices as on the host; with layout mirror 8 GPUs direct, 120 pairs",
			add},
		"the hook came later": {dgx, hgx, "", true, flat +
			"0 of 120 pairs of devices as on the host; with layout mirror 8 GPUs direct, 120 pairs",
			have},
		"layout numa": {dgx, hgx, policy.LayoutNUMA, true, flat +
			"64 of 120 pairs of devices as on the host; the tree is of layout numa; with layout " +
			"mirror 8 GPUs direct, 120 pairs", have},
		"layout root": {dgx, hgx, policy.LayoutRoot, true, roots +
			"112 of 120 pairs of devices as on the host; the tree is of layout root; with " +
			"layout mirror 8 GPUs direct, 120 pairs", have},
		"layout mirror": {dgx, hgx, policy.LayoutMirror, false, whole +
			"the tree is of layout mirror",
			"nothing: no layout shows more of the host"},
		"one GPU, no cells": {one, hgx, "", false,
			"one device, which does not know its NUMA node; 1 without a place; first give the " +
				"guest NUMA cells", cellsFirst + add},
		"the host is another's": {dgx, "x86-2n2g-t4-vgpu", "", false,
			"the host shows none of the 16 devices", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, request := inputs(t, test.sample, test.host)
			if test.placed != "" {
				request.Domain = m.Read(request).WithLayout(test.placed).Domain
			}

			r, err := cli.NewRunning(m.Read(request), test.hasHook, nil)
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

// A guest without cells gains GPUDirect RDMA all the same. A pair that the host does
// not show is one of the VM's pairs.
func TestVerdictOfUnplaced(t *testing.T) {
	m, request := inputs(t, dgx, hgx)
	noCells := regexp.MustCompile(
		`(?s)<numa>.*?</numa>|<numatune>.*?</numatune>`).ReplaceAll(request.Domain, nil)
	hidden := m
	hidden.Sysfs = without(t, hgx, "0000:18:00.1", "0000:1b:00.0")
	placed := request
	placed.Domain = m.Read(request).Plan().Domain

	for name, test := range map[string]struct {
		planner       plan.Planner
		request       plan.Request
		verdict, todo string
	}{
		"no cells": {m, plan.Request{
			Domain: noCells,
		}, flat +
			"0 of 120 pairs of devices as on the host; the guest has no NUMA cells; with layout " +
			"mirror 8 GPUs direct, 72 pairs",
			add},
		"two unplaced": {hidden, request,
			"0 of 7 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; 0 of 120 pairs of devices " +
				"as on the host, 29 not known; 2 without a place; with layout mirror 7 GPUs " +
				"direct, 91 pairs",
			reasons.NoSysfs.Remedy() + " (no-sysfs); then " + add},
		"two unplaced, hook": {hidden, placed,
			"7 of 7 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; 91 of 120 pairs of devices " +
				"as on the host, 29 not known; 2 without a place; the tree is of layout mirror",
			""},
	} {
		r, err := cli.NewRunning(test.planner.Read(test.request), false, nil)
		expect.NoError(t, err)
		expect.Same(t, test.verdict, r.Verdict(), "%s: verdict", name)
		if got := r.ToDo(); test.todo != "" {
			expect.Same(t, test.todo, got, "%s: to do", name)
		}
	}
}

// without returns a host without some devices.
func without(t *testing.T, snapshot string, devices ...string) fs.FS {
	archive := txtar.Parse(read(t, "hosts/"+snapshot+".txtar"))
	archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
		return slices.ContainsFunc(devices, func(d string) bool {
			return strings.Contains(f.Name, d)
		})
	})

	sysfs, err := host.ParseSnapshot(txtar.Format(archive))
	expect.NoError(t, err)
	return sysfs
}

// A VM whose own annotation names a layout is judged by it.
func TestVerdictOfAnnotation(t *testing.T) {
	m, request := inputs(t, dgx, hgx)
	request.Parsed.Annotations = map[string]string{policy.AnnotationPrefix + "layout": "mirror"}
	r, err := cli.NewRunning(m.Read(request), false, nil)
	expect.NoError(t, err)
	if got, want := r.Verdict(), flat+
		"0 of 120 pairs of devices as on the host; with layout mirror 8 GPUs direct, 120 pairs"; got != want {
		t.Errorf("verdict %s, want %s", got, want)
	}
}

// A VM with the hook is judged by the hook's arguments.
func TestVerdictOfArguments(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		todo      string
	}{
		"none": {nil, have},
		"the same": {[]string{
			"--layout=numa",
		},
			"nothing, or annotate the VM with hostdev.vm.kubevirt.io/layout: mirror; --layout " +
				"mirror shows it"},
		"layout locked": {[]string{
			"--layout", "numa", "--lock", "strict,layout",
		},
			"nothing, or set --layout=mirror in the arguments of the hook, which lock it; " +
				"--layout mirror shows it"},
	} {
		t.Run(name, func(t *testing.T) {
			m, request := inputs(t, dgx, hgx)
			request.Domain = m.Read(request).WithLayout(policy.LayoutNUMA).Domain
			var err error
			m.Source, err = cli.HookPolicy(test.arguments)
			expect.NoError(t, err)
			r, err := cli.NewRunning(m.Read(request), true, m.Locked)
			expect.NoError(t, err)
			if got := r.ToDo(); got != test.todo {
				t.Errorf("to do\n%s, want\n%s", got, test.todo)
			}
		})
	}
}
