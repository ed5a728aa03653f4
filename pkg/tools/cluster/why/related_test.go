package why

import (
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// runs is a VM that runs on a node with a pod.
const runs = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
	"spec: {domain: {devices: {gpus: [{name: g, deviceName: nvidia.com/L4}]}}}\n" +
	"status: {phase: Running, nodeName: gpu-1, phaseTransitionTimestamps: [{phase: Running, " +
	"phaseTransitionTimestamp: '2026-11-22T10:00:20Z'}]}\n---\n" +
	"kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p, namespace: ml, labels: {role: render}}\n" +
	"spec: {nodeName: gpu-1}\nstatus: {phase: Running, containerStatuses: [{name: compute, " +
	"ready: true, state: {running: {startedAt: '2026-11-22T10:00:10Z'}}}]}\n---\n"

// TestBudgets: a budget that keeps the VM's pod while its node is drained is noted, and none else.
func TestBudgets(t *testing.T) {
	const (
		cordoned = "kind: Node\nmetadata: {name: gpu-1}\nspec: {unschedulable: true}\n---\n"
		budget   = "kind: PodDisruptionBudget\nmetadata: {name: keep, namespace: ml}\n" +
			"spec: {maxUnavailable: 1, selector: {matchLabels: {role: render}}}\n" +
			"status: {disruptionsAllowed: 0, conditions: [{type: DisruptionAllowed, " +
			"status: 'False', reason: SyncFailed, message: no scale subresource}]}\n---\n"
	)

	refused := "error when evicting pods/\"virt-launcher-vm-x7k2p\" -n \"ml\" (will retry after " +
		"5s): Cannot evict pod as it would violate the pod's disruption budget."
	for name, tt := range map[string]struct{ objects, log, want string }{
		"drained":      {cordoned + budget, "", "ml/keep allows 0 disruptions with maxUnavailable 1 (SyncFailed"},
		"refused":      {budget, refused, "ml/keep allows 0 disruptions"},
		"no budget":    {"", refused, "a PodDisruptionBudget allows no disruption"},
		"another's":    {"", strings.ReplaceAll(refused, "launcher-vm", "launcher-db"), ""},
		"no drain":     {budget, "", ""},
		"one may go":   {cordoned + strings.ReplaceAll(budget, "Allowed: 0", "Allowed: 1"), "", ""},
		"other labels": {cordoned + strings.ReplaceAll(budget, "role: render", "role: db"), "", ""},
		"a namespace":  {cordoned + strings.ReplaceAll(budget, "namespace: ml", "namespace: x"), "", ""},
	} {
		e := evidence(runs + tt.objects)
		if tt.log != "" {
			e.Add("drain.txt", []byte(tt.log))
		}

		r := e.Diagnose()
		notes := strings.Join(r.State.Notes, "\n")
		if !strings.Contains(notes, tt.want) || tt.want == "" && notes != "" {
			t.Errorf("%s: %q, want %q", name, notes, tt.want)
		}
		if len(r.Causes)+len(r.Errors) > 0 || r.Fails() {
			t.Errorf("%s: %s, errors %+v", name, causes(r.Causes), r.Errors)
		}
	}
}

// TestUsedDevices: where nothing names the VM's devices, a line of the node's kernel is the VM's if
// vfio-pci used its device as the VM started; of others that is not known.
func TestUsedDevices(t *testing.T) {
	const (
		gaveUp = "[Sun Nov 22 11:47:00 2026] vfio-pci 0000:41:00.0: not ready 65535ms after bus reset; giving up\n"
		used   = "[Sun Nov 22 11:00:12 2026] vfio-pci 0000:41:00.0: enabling device (0000 -> 0002)\n"
		other  = "[Sun Nov 22 10:20:12 2026] vfio-pci 0000:81:00.0: enabling device (0000 -> 0002)\n"
		port   = "[Sun Nov 22 11:47:00 2026] pcieport 0000:40:01.1: AER: Uncorrectable (Fatal) error message\n"
		fault  = "[Sun Nov 22 09:00:00 2026] DMAR: [DMA Read NO_PASID] Request device [00:14.0] fault addr 0x8d3f0000\n"
	)

	for name, tt := range map[string]struct {
		log, want string
		errors    int
	}{
		"the only one":          {gaveUp, "reset-failed", 0},
		"used at its start":     {used + other + gaveUp, "reset-failed", 0},
		"another at its start":  {strings.ReplaceAll(used, "41:", "c1:") + other + gaveUp, "", 0},
		"none at its start":     {other + gaveUp, "", 1},
		"a chip of the board":   {used + other + fault, "", 0},
		"the same without uses": {fault, "", 1},
		"a port alone":          {used + other + port, "", 1},
		"a port beside it":      {used + other + port + gaveUp, "reset-failed", 0},
	} {
		e := evidence(runs)
		e.Add("dmesg", []byte(tt.log))
		r := e.Diagnose()
		got := causes(r.Causes)
		if got != tt.want || len(r.Errors) != tt.errors {
			t.Errorf("%s: %q, want %q, errors %+v", name, got, tt.want, r.Errors)
		}
	}
}

// TestAbsent: a node that has the VM's devices and no virt-handler is named with what keeps it off,
// and a node that has a virt-handler, or none of the devices, is not.
func TestAbsent(t *testing.T) {
	const waits = "kind: Event\ntype: Warning\nreason: FailedScheduling\n" +
		"involvedObject: {kind: Pod, name: virt-launcher-vm-x7k2p, namespace: ml}\n" +
		"lastTimestamp: '2026-11-22T10:00:00Z'\nmessage: \"0/2 nodes are available: 2 node(s) didn't " +
		"match Pod's node affinity/selector.\"\n---\n" +
		"kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p, namespace: ml}\nspec: {containers: " +
		"[{name: compute, resources: {requests: {nvidia.com/L4: '1'}}}]}\nstatus: {phase: Pending}\n---\n" +
		"kind: Node\nmetadata: {name: gpu-1}\nspec: {taints: [{key: for, value: ml, effect: NoSchedule}]}\n" +
		"status: {capacity: {nvidia.com/L4: '2'}, allocatable: {nvidia.com/L4: '2'}}\n---\n" +
		"kind: Node\nmetadata: {name: cpu-1}\n---\n" +
		"kind: Pod\nmetadata: {name: virt-handler-a2a2a, namespace: kubevirt}\nspec: {nodeName: cpu-1}\n" +
		"status: {phase: Running}\n---\n"
	const set = "kind: DaemonSet\nmetadata: {name: virt-handler, namespace: kubevirt}\n" +
		"spec: {template: {spec: {tolerations: [{key: CriticalAddonsOnly, operator: Exists}]}}}\n---\n"

	for name, tt := range map[string]struct{ objects, want, text string }{
		"not tolerated": {waits + set, "virt-handler-down", "does not tolerate the taint for:NoSchedule"},
		"no DaemonSet":  {waits, "virt-handler-down", "no pod of it is there; it has the taint for"},
		"it is there": {waits + strings.Replace(set, "DaemonSet", "Nothing", 1) +
			"kind: Pod\nmetadata: {name: virt-handler-b2b2b, namespace: kubevirt}\n" +
			"spec: {nodeName: gpu-1}\nstatus: {phase: Running}\n---\n", "no-node", ""},
		"tolerated": {waits + strings.Replace(set, "CriticalAddonsOnly", "for", 1), "virt-handler-down",
			"no pod of it is there"},
		"schedulable": {strings.Replace(waits, "{name: gpu-1}",
			"{name: gpu-1, labels: {kubevirt.io/schedulable: 'true'}}", 1) + set, "no-node", ""},
	} {
		r := evidence(tt.objects).Diagnose()
		if len(r.Causes) == 0 || r.Causes[0].Name != tt.want ||
			!strings.Contains(r.Causes[0].Line.Text, tt.text) {
			t.Errorf("%s: %+v", name, r.Causes)
		}
	}
}

// TestFirstOfBurst: of lines of one failure the first is shown, and of two failures the last one.
func TestFirstOfBurst(t *testing.T) {
	e := evidence(runs)
	expect.NoError(t, e.AddGuestFile("guest.txt", []byte(
		"[ 61.2] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x25:0xffff:1)\n"+
			"[ 61.3] NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 0\n"+
			"[301.4] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x26:0xffff:2)\n"+
			"[301.5] NVRM: GPU 0000:0a:00.0: rm_init_adapter failed, device minor number 0\n")))
	found := e.Diagnose().Causes
	if len(found) != 1 || !strings.Contains(found[0].Line.Text, "0x26:0xffff:2") {
		t.Errorf("%+v", found)
	}
}

// TestOthersProcess: a process of another pod that the node's kernel ended is not the VM's.
func TestOthersProcess(t *testing.T) {
	const (
		own    = "0a000000-0000-4000-8000-000000000001"
		failed = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"status: {phase: Failed, nodeName: gpu-1}\n---\nkind: Pod\nmetadata: " +
			"{name: virt-launcher-vm-x7k2p, namespace: ml, uid: " + own + "}\nstatus: {phase: Failed}\n"
	)

	for uid, want := range map[string]string{own: "out-of-memory", strings.Replace(own, "1", "2", 1): ""} {
		e := evidence(failed)
		e.Add("dmesg", []byte("[ 90.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/kubepods.slice/"+
			"kubepods-pod"+strings.ReplaceAll(uid, "-", "_")+".slice/cri-1.scope,task=qemu-kvm,pid=51,uid=107\n"+
			"[ 90.2] Memory cgroup out of memory: Killed process 51 (qemu-kvm) total-vm:1kB\n"))
		if got := causes(e.Diagnose().Causes); got != want {
			t.Errorf("pod %s: %q, want %q", uid, got, want)
		}
	}
}
