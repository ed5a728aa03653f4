package why

import (
	"strings"
	"testing"
)

// moved is a VM with a virtual function that runs after a migration.
const moved = "kind: VirtualMachineInstance\n" +
	"metadata: {name: vm, namespace: ml}\n" +
	"spec: {domain: {devices: {interfaces: [{name: data, sriov: {}}]}}}\n" +
	"status: {phase: Running, nodeName: gpu-1, interfaces: [INTERFACES], migrationState: {completed: " +
	"true, endTimestamp: '2026-11-22T10:00:00Z'}}\n---\n"

// TestPlug: a virtual function that could not be plugged again after a migration is missing, and
// what kept it away is the cause, unless a later attempt succeeded.
func TestPlug(t *testing.T) {
	const (
		plugged = "{name: data, infoSource: 'domain, guest-agent'}"
		fails   = "kind: Event\nmetadata: {name: e, namespace: ml}\nreason: SyncFailed\ntype: Warning\n" +
			"lastTimestamp: '2026-11-22T10:01:00Z'\n" +
			"involvedObject: {kind: VirtualMachineInstance, name: vm, namespace: ml}\n" +
			"message: 'server error. command SyncVMI failed: failed to hot-plug SR-IOV interfaces: REASON'\n"
		busy = "vfio 0000:3b:02.1: failed to open /dev/vfio/91: Device or resource busy"
	)

	for name, tt := range map[string]struct{ interfaces, events, want string }{
		"busy":           {"", strings.ReplaceAll(fails, "REASON", busy), "device-in-use device-not-in-domain"},
		"unknown":        {"", strings.ReplaceAll(fails, "REASON", "no such thing"), "device-not-in-domain"},
		"at last":        {plugged, strings.ReplaceAll(fails, "REASON", busy), ""},
		"it never fails": {"", "", ""},
	} {
		e := evidence(strings.ReplaceAll(moved, "INTERFACES", tt.interfaces) + tt.events)
		if r := e.Diagnose(); causes(r.Causes) != tt.want {
			t.Errorf("%s: %s, want %s", name, causes(r.Causes), tt.want)
		}
	}
}

// TestNotesOfVolumes: a volume that cannot be attached to a VM that runs is noted with what its
// pod says, and a restore that does not complete with why.
func TestNotesOfVolumes(t *testing.T) {
	const (
		vmi = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"status: {phase: Running, nodeName: gpu-1, volumeStatus: [{name: extra, phase: " +
			"AttachedToNode, hotplugVolume: {attachPodName: hp-volume-q7d2x}}]}\n---\n"
		pod = "kind: Pod\nmetadata: {name: hp-volume-q7d2x, namespace: ml}\n" +
			"spec: {nodeName: gpu-1}\nstatus: {phase: Pending, containerStatuses: [{name: hotplug-disk, " +
			"state: {waiting: {reason: REASON, message: 'the words of its runtime'}}}]}\n---\n"
		restore = "kind: VirtualMachineRestore\nmetadata: {name: back, namespace: ml}\n" +
			"spec: {target: {kind: VirtualMachine, name: vm}}\nstatus: {complete: DONE, conditions: [" +
			"{type: Failure, status: 'True', reason: Restore target failed to be ready within 5m}]}\n---\n"
	)

	for name, tt := range map[string]struct{ objects, want string }{
		"its pod fails":  {vmi + strings.ReplaceAll(pod, "REASON", "CrashLoopBackOff"), "hp-volume-q7d2x is in CrashLoopBackOff"},
		"its pod starts": {vmi + strings.ReplaceAll(pod, "REASON", "ContainerCreating"), ""},
		"no pod":         {vmi, ""},
		"restore":        {runs + strings.ReplaceAll(restore, "DONE", "false"), "its restore back does not complete"},
		"restored":       {runs + strings.ReplaceAll(restore, "DONE", "true"), ""},
	} {
		notes := strings.Join(evidence(tt.objects).Diagnose().State.Notes, "\n")
		if !strings.Contains(notes, tt.want) || tt.want == "" && notes != "" {
			t.Errorf("%s: %q, want %q", name, notes, tt.want)
		}
	}
}

// TestMigrationOverQuota: that a quota refuses the pod of a migration's target keeps no VM from
// running, and is named as the migration's.
func TestMigrationOverQuota(t *testing.T) {
	const (
		migration = "kind: VirtualMachineInstanceMigration\nmetadata: {name: away, namespace: ml}\n" +
			"spec: {vmiName: vm}\nstatus: {phase: PHASE, conditions: [{type: " +
			"migrationRejectedByResourceQuota, status: 'True'}]}\n---\n"
		quota = "kind: ResourceQuota\nmetadata: {name: team, namespace: ml}\n" +
			"status: {hard: {requests.nvidia.com/L4: '2'}, used: {requests.nvidia.com/L4: '2'}}\n---\n"
		event = "kind: Event\nmetadata: {name: e, namespace: ml}\nreason: FailedCreate\ntype: Warning\n" +
			"lastTimestamp: '2026-11-22T11:00:00Z'\n" +
			"involvedObject: {kind: VirtualMachineInstance, name: vm, namespace: ml}\n" +
			"message: 'Error creating pod: forbidden: exceeded quota: team'\n---\n"
	)

	asks := strings.Replace(runs, "spec: {nodeName: gpu-1}", "spec: {nodeName: gpu-1, containers: "+
		"[{name: compute, resources: {requests: {nvidia.com/L4: 1}}}]}", 1)
	pending := strings.ReplaceAll(migration, "PHASE", "Pending")
	for name, tt := range map[string]struct{ objects, want, line string }{
		"condition": {pending + quota, "quota", "ResourceQuota team: 2 of 2 of requests.nvidia.com/L4"},
		"event":     {event, "quota", "exceeded quota: team"},
		"over":      {strings.ReplaceAll(migration, "PHASE", "Failed") + quota, "", ""},
	} {
		r := evidence(asks + tt.objects).Diagnose()
		if causes(r.Causes) != tt.want || r.Fails() {
			t.Errorf("%s: %s, want %s", name, causes(r.Causes), tt.want)
			continue
		}
		for _, f := range r.Causes {
			if f.Stage != StageMigrate || !strings.Contains(f.Line.Text, tt.line) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestStopping: of a VM that is being deleted, what keeps it from its end comes before what kept
// it from its start.
func TestStopping(t *testing.T) {
	const objects = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml, " +
		"deletionTimestamp: '2026-11-22T10:05:00Z'}\nstatus: {phase: Scheduling}\n---\n" +
		"kind: Event\nmetadata: {name: e, namespace: ml}\nreason: FailedPrepareDynamicResources\n" +
		"type: Warning\nlastTimestamp: '2026-11-22T10:04:00Z'\n" +
		"involvedObject: {kind: Pod, name: virt-launcher-vm-x7k2p, namespace: ml}\n" +
		"message: 'Failed to prepare dynamic resources: no plugin'\n"
	e := evidence(objects)
	e.Add("kubelet.log", []byte("Nov 22 10:06:00 gpu-1 kubelet[77]: E1122 10:06:00.1 77 pod_workers.go:1] "+
		`"Error syncing pod, skipping" err="unprepare dynamic resources: DRA driver gpu.example.com is `+
		`not registered" pod="ml/virt-launcher-vm-x7k2p"`))
	if r := e.Diagnose(); causes(r.Causes) != "claim-not-returned claim-not-prepared" {
		t.Errorf("%s", causes(r.Causes))
	}
}

// TestEvacuation: that KubeVirt's webhook refuses an eviction, since it migrates the VM first, does not
// say that the VM cannot migrate.
func TestEvacuation(t *testing.T) {
	const refused = `error when evicting pods/"virt-launcher-vm-x7k2p" -n "ml": admission webhook ` +
		`"virt-launcher-eviction-interceptor.kubevirt.io" denied the request: `
	for words, want := range map[string]int{
		`Eviction triggered evacuation of VMI "ml/vm"`:                                   0,
		`VMI "ml/vm" is configured with an eviction strategy but is not live-migratable`: 1,
	} {
		e := evidence(runs)
		e.Add("drain.txt", []byte(refused+words))
		if r := e.Diagnose(); len(r.State.Notes) != want || len(r.Causes)+len(r.Errors) > 0 {
			t.Errorf("%s: %q, %+v", words, r.State.Notes, r.Errors)
		}
	}
}
