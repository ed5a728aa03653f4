package why

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/test/expect"
)

// fresh is a bundle about a VM as someone who knew neither the table nor its threads made it after a
// thread, before why was asked. A part of it may be an archive as collect writes it.
type fresh struct {
	fields map[string]string
	files  []txtar.File
}

// freshBundles returns the bundles of a folder of testdata.
func freshBundles(t *testing.T, folder string) map[string]fresh {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	expect.NoError(t, err)
	all := map[string]fresh{}
	for _, name := range names {
		parsed := txtar.Parse(expect.File(t, name))
		fields := map[string]string{}
		for line := range strings.Lines(string(parsed.Comment)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fields[key] = value
		}

		all[strings.TrimSuffix(filepath.Base(name), ".txtar")] = fresh{fields, parsed.Files}
	}

	return all
}

// diagnose returns the report about the bundle's VM, which needs no name.
func (f fresh) diagnose(t *testing.T, more ...txtar.File) Report {
	t.Helper()
	archived := archive.Input{
		Name: "archive", IsPacked: true, Collected: &archive.Index{VMs: []string{f.fields["vm"]}},
	}
	var inputs []archive.Input
	var guest []txtar.File
	for _, file := range slices.Concat(f.files, more) {
		name, isArchived := strings.CutPrefix(file.Name, "archive/")
		switch {
		case strings.HasPrefix(file.Name, "guest/"):
			guest = append(guest, file)
		case isArchived:
			archived.Files = append(archived.Files, archive.File{Name: name, Data: file.Data})
		default:
			in, err := archive.Parse(file.Name, file.Data)
			expect.NoError(t, err)
			inputs = append(inputs, in)
		}
	}

	if len(archived.Files) > 0 {
		inputs = append(inputs, archived)
	}

	vms := VMsOf(inputs)
	slices.Sort(vms)
	if vms = slices.Compact(vms); !slices.Equal([]string{f.fields["vm"]}, vms) {
		t.Errorf("the files have the VMs %q, want %s", vms, f.fields["vm"])
	}

	namespace, name, _ := strings.Cut(f.fields["vm"], "/")
	e := &Evidence{Report: Report{Namespace: namespace, Name: name}}
	for _, in := range inputs {
		e.AddInput(in)
	}

	for _, file := range guest {
		expect.NoError(t, e.AddGuestFile(file.Name, file.Data))
	}

	return e.Diagnose()
}

// TestFresh: the cause is named with an object of the evidence or, where none can be known, the line
// that says most comes first, with who says it. When the bundles were new, 10 of 22 were right so, and
// two wrong.
func TestFresh(t *testing.T) {
	all := freshBundles(t, "fresh")
	if len(all) < 22 {
		t.Errorf("%d bundles", len(all))
	}

	for name, f := range all {
		r, want := f.diagnose(t), f.fields
		if !strings.HasPrefix(want["source"], "https://") || want["solved"] == "" {
			t.Errorf("%s lacks its source, or what solved it", name)
		}

		got := noCause
		if len(r.Causes) > 0 {
			got = r.Causes[0].Name
		}

		if got != want["cause"] {
			t.Errorf("%s: %s, want %s: errors %+v", name, got, want["cause"], r.Errors)
			continue
		}

		about, first, began := []string(nil), Line{}, Line{}
		switch {
		case len(r.Causes) > 0:
			about, first = r.Causes[0].About, r.Causes[0].Line
			if r.Causes[0].First != nil {
				began = *r.Causes[0].First
			}
		case len(r.Errors) > 0:
			first = r.Errors[0]
		}

		if want["about"] != "" && !slices.Contains(about, want["about"]) {
			t.Errorf("%s: names %q, want %q", name, about, want["about"])
		}

		if !strings.Contains(first.Text, want["first"]) ||
			want["speaker"] != "" && first.Speaker != want["speaker"] {
			t.Errorf("%s: first %+v, want %q of %q", name, first, want["first"], want["speaker"])
		}

		if !strings.Contains(began.Text, want["began"]) {
			t.Errorf("%s: it began with %q, want %q", name, began.Text, want["began"])
		}
	}
}

// TestFreshWell: of VMs that are well nothing is named or quoted.
func TestFreshWell(t *testing.T) {
	all := freshBundles(t, "freshwell")
	if len(all) < 12 {
		t.Errorf("%d bundles", len(all))
	}

	for name, f := range all {
		if r := f.diagnose(t); len(r.Causes)+len(r.Errors) > 0 || r.Fails() {
			t.Errorf("%s: %s, errors %+v", name, causes(r.Causes), r.Errors)
		}
	}
}

// The domain and the variables of VM ml/duo of the bundle that the next tests take, and its devices'
// place: 0000:41:00.0 is below 0000:40:01.1.
var duo = []txtar.File{
	{Name: "archive/pods/ml/virt-launcher-duo-ll2ll/domain.xml", Data: []byte(
		"<domain><name>ml_duo</name><devices><hostdev mode='subsystem' type='pci'><source>" +
			"<address domain='0x0000' bus='0x41' slot='0x00' function='0x0'/></source>" +
			"<address type='pci' domain='0x0000' bus='0x08' slot='0x00' function='0x0'/></hostdev>" +
			"<hostdev mode='subsystem' type='pci'><source>" +
			"<address domain='0x0000' bus='0x61' slot='0x00' function='0x0'/></source>" +
			"<alias name='ua-gpu-g1'/></hostdev><!-- ua-gpu-g0' --></devices></domain>")},
	{Name: "archive/pods/ml/virt-launcher-duo-ll2ll/variables.txt", Data: []byte(
		"PCI_RESOURCE_NVIDIA_COM_GH100_H100_PCIE=0000:41:00.0,0000:61:00.0\n")},
	{Name: "archive/pods/ml/virt-launcher-duo-ll2ll/compute.txtar", Data: []byte(
		"-- bus/pci/devices/0000:41:00.0 -> ../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0 --\n" +
			"-- bus/pci/devices/0000:c4:00.0 -> ../../../devices/pci0000:c0/0000:c0:01.1/0000:c4:00.0 --\n" +
			"-- devices/pci0000:40/0000:40:01.1/0000:41:00.0/iommu_group -> " +
			"../../../../kernel/iommu_groups/44 --\n" +
			"-- devices/pci0000:40/0000:40:02.0/iommu_group -> ../../../kernel/iommu_groups/44 --\n")},
}

// TestWhoseLine: a line of a node's kernel counts if it is about one of the VM's devices, what is above
// or beside it, on the VM's node, since the VM started and the device failed last.
func TestWhoseLine(t *testing.T) {
	const (
		at     = "Nov 27 09:14:36 h-8 kernel: "
		gaveUp = "not ready 65535ms after bus reset; giving up\n"
		before = "2026-11-26T09:14:36+0000 h-8 kernel: vfio-pci 0000:41:00.0: " + gaveUp
	)

	bundle := freshBundles(t, "freshwell")["12-qemu-noise"]
	for text, want := range map[string]string{
		// another VM's device
		at + "vfio-pci 0000:c4:00.0: " + gaveUp:                                   "",
		at + "NVRM: Xid (PCI:0000:c4:00): 79, GPU has fallen off the bus.":        "",
		at + "pcieport 0000:c0:01.1: AER: Uncorrectable (Fatal) error message":    "",
		at + "DMAR: [DMA Read] Request device [c4:00.0] fault addr 0x9c000000":    "",
		at + "vfio-pci 0000:c4:00.0: BAR 3: can't reserve [mem 0x90000000]":       "",
		at + "vfio-pci 0000:c4:00.0: PCIe Bus Error: severity=Uncorrected, type=": "",
		at + "mpt3sas_cm0: fault_state(0x5854)! failed to reset":                  "",
		// another node
		"Nov 27 09:14:36 h-99 kernel: vfio-pci 0000:41:00.0: " + gaveUp: "",
		// before the VM started
		before: "",
		"Nov 26 09:14:36 h-8 kernel: vfio-pci 0000:41:00.0: " + gaveUp: "",
		"[ 10.0] vfio-pci 0000:41:00.0: " + gaveUp +
			"[    0.000000] Linux version 6.12.0\n": "",
		// it works again
		"[ 10.0] vfio-pci 0000:41:00.0: " + gaveUp +
			"[ 20.0] vfio-pci 0000:41:00.0: reset done\n": "",
		// the VM's
		at + "vfio-pci 0000:41:00.0: " + gaveUp:                                          "reset-failed",
		at + "vfio-pci 0000:41:00.1: " + gaveUp:                                          "reset-failed",
		at + "NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.":               "gpu-lost",
		at + "pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error":                   "pcie-error",
		at + "pcieport 0000:c0:01.1: AER: Uncorrectable (Fatal) error from 0000:61:00.0": "pcie-error",
		at + "e1000e 0000:40:02.0: PCIe Bus Error: severity=Uncorrected (Fatal)":         "pcie-error",
		at + "DMAR: [DMA Read] Request device [41:00.0] fault addr 0x9c000000":           "iommu-fault",
		"Nov 27 09:14:36 h-8.lab kernel: vfio-pci 0000:41:00.0: " + gaveUp:               "reset-failed",
		"2026-11-27T10:14:36+01:00 h-8 kernel: vfio-pci 0000:41:00.0: " + gaveUp:         "reset-failed",
		"[ 10.0] vfio-pci 0000:41:00.0: reset done\n" +
			"[ 20.0] vfio-pci 0000:41:00.0: " + gaveUp: "reset-failed",
		"[ 10.0] vfio-pci 0000:41:00.0: " + gaveUp +
			"[ 20.0] vfio-pci 0000:c4:00.0: reset done\n": "reset-failed",
	} {
		r := bundle.diagnose(t, append(slices.Clone(duo), txtar.File{Name: "dmesg", Data: []byte(text)})...)
		if got := causes(r.Causes); got != want || want == "" && len(r.Errors) > 0 {
			t.Errorf("%s: causes %q, want %q, errors %+v", text, got, want, r.Errors)
		}
	}
}

// TestOthersLine: a fault of another device does not hide what QEMU says.
func TestOthersLine(t *testing.T) {
	bundle := freshBundles(t, "fresh")["16-dma-map-bad-address"]
	for _, text := range []string{
		"[ 10.0] vfio-pci 0000:c4:00.0: not ready 65535ms after bus reset; giving up\n",
		"[ 10.0] NVRM: Xid (PCI:0000:c4:00): 79, GPU has fallen off the bus.\n",
	} {
		r := bundle.diagnose(t, txtar.File{Name: "dmesg", Data: []byte(text)})
		if len(r.Causes) > 0 || len(r.Errors) == 0 || r.Errors[0].Speaker != nodeVFIO {
			t.Errorf("%s: causes %s, errors %+v", text, causes(r.Causes), r.Errors)
		}
	}
}

// TestProviders: what a pod reports or does that makes or offers devices is a cause only while its node
// does not offer what the VM waits for, and only if it is such a pod.
func TestProviders(t *testing.T) {
	const (
		waits = "kind: Event\ntype: Warning\nreason: FailedScheduling\n" +
			"involvedObject: {kind: Pod, name: virt-launcher-vm-x7k2p, namespace: ml}\n" +
			"lastTimestamp: '2026-11-22T10:00:00Z'\nmessage: '0/1 nodes are available: 1 "
		lacks  = waits + "Insufficient nvidia.com/L40S.'\n---\n"
		claims = waits + "cannot allocate all claims.'\n---\n"
		log    = "E1122 09:00:00.000001 1 plugin.go:1] cannot read device 0000:41:00.0: nobody knows"
		plain  = "E1122 09:00:00.000001 1 a.go:1] it failed"
	)

	offers := func(count string) string {
		return "kind: Node\nmetadata: {name: gpu-1}\nstatus: {allocatable: {nvidia.com/L40S: '" +
			count + "'}}\n---\n"
	}

	sliceOf := func(node string) string {
		return "kind: ResourceSlice\nmetadata: {name: s}\nspec: {nodeName: " + node + "}\n---\n"
	}

	pod := func(name, state, requests string) string {
		return "kind: Pod\nmetadata: {name: " + name + ", namespace: gpus}\n" +
			"spec: {nodeName: gpu-1, containers: [{name: c, resources: {requests: {" + requests +
			"}}}]}\nstatus: {phase: Pending, containerStatuses: " +
			"[{name: c, state: {waiting: {reason: " + state + "}}}]}\n---\n"
	}

	warns := func(kind, name, reason string) string {
		return "kind: Event\ntype: Warning\nreason: " + reason + "\nmessage: no runtime\n" +
			"involvedObject: {kind: " + kind + ", name: " + name + ", namespace: gpus}\n---\n"
	}

	const starting, crashing, plugin = "ContainerCreating", "CrashLoopBackOff", "nvidia-device-plugin-x"
	none := lacks + offers("0")
	for name, tt := range map[string]struct{ objects, log, want string }{
		"a failure":           {none, log, "provider-fails"},
		"all are in use":      {lacks + offers("8"), log, "no-node"},
		"another program":     {none, plain, "nothing-bound"},
		"none is registered":  {lacks, log, "provider-fails"},
		"it says it has none": {none, "no devices in pool for L40S", "provider-fails"},
		"another's has none":  {none, "no devices in pool for T4", "nothing-bound"},
		"it only starts":      {none + pod(plugin, starting, ""), "", "nothing-bound"},
		"it has no sandbox": {none + pod(plugin, starting, "") +
			warns("Pod", plugin, "FailedCreatePodSandBox"), "", "plugin-down"},
		"it crashes":           {none + pod("nvidia-driver-x", crashing, ""), "", "plugin-down"},
		"an exporter crashes":  {none + pod("nvidia-dcgm-exporter-x", crashing, ""), "", "nothing-bound"},
		"a user's pod crashes": {none + pod("gpu-app", crashing, "nvidia.com/T4: '1'"), "", "nothing-bound"},
		"a crash, all in use":  {lacks + offers("8") + pod("nvidia-driver-x", crashing, ""), "", "no-node"},
		"a DRA plugin crashes": {claims + pod("gpu-kubelet-plugin-x", crashing, ""), "", "plugin-down"},
		"a DRA plugin offers":  {claims + sliceOf("gpu-1") + offers("0"), log, "claim-not-allocated"},
		"it offers elsewhere":  {claims + sliceOf("gpu-2") + offers("0"), log, "provider-fails"},
		"no slice was read":    {claims + offers("0"), log, "claim-not-allocated"},
		"a set has no pod":     {none + warns("DaemonSet", plugin, "FailedCreate"), "", "plugin-down"},
		"an app's set has none": {strings.ReplaceAll(none+warns("DaemonSet", "app", "FailedCreate"),
			"gpus", "shop"), "", "nothing-bound"},
	} {
		e := evidence(tt.objects)
		if tt.log != "" {
			e.Add("plugin.log", []byte(tt.log))
		}

		got := noCause
		if r := e.Diagnose(); len(r.Causes) > 0 {
			got = r.Causes[0].Name
		}

		if got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
