package why

import (
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// TestState: each state that KubeVirt's objects say in words, and what to do.
func TestState(t *testing.T) {
	vm := func(spec, status string) string {
		return "kind: VirtualMachine\nmetadata: {name: vm, namespace: ml}\nspec: {" + spec +
			"}\nstatus: {" + status + "}\n"
	}

	instance := func(status string) string {
		return "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"spec: {domain: {devices: {gpus: [{name: gpu1, deviceName: nvidia.com/GH100}], " +
			"hostDevices: [{name: nic1}]}}}\nstatus: {nodeName: gpu-1, " + status + "}\n"
	}

	running := vm("runStrategy: Always", "printableStatus: Running")
	condition := func(kind, status, reason, message string) string {
		return "phase: Running, conditions: [{type: " + kind + ", status: '" + status +
			"', reason: " + reason + ", message: '" + message + "'}]"
	}

	for _, tt := range []struct {
		name, text, todo string
		objects          []string
	}{
		{"unknown", "is in an unknown state: neither the VM nor its VMI was read", "", []string{
			"no object",
		}},
		{"stopped", "is stopped: runStrategy Halted", "virtctl start vm", []string{
			vm("runStrategy: Halted", "printableStatus: Stopped"),
		}},
		{"stopped", "is stopped: runStrategy Halted", "virtctl start vm", []string{
			vm("running: false", "printableStatus: Stopped"),
		}},
		{"stopped", "is stopped: runStrategy Manual starts it on demand, or once",
			"virtctl start vm", []string{
				vm("runStrategy: Manual", "printableStatus: Stopped"),
			}},
		{"stopped", "is stopped, though runStrategy is Always", "", []string{
			vm("runStrategy: Always", "printableStatus: Stopped"),
		}},
		{"provisioning", "waits for its volumes, which are being provisioned",
			"kubectl get datavolume,pvc shows how far they are", []string{
				vm("running: true", "printableStatus: Provisioning"),
			}},
		{"waiting-for-volume", "waits for a volume that is not bound",
			"kubectl get pvc and kubectl describe pvc say why", []string{
				vm("running: true", "printableStatus: WaitingForVolumeBinding"),
				instance("phase: Pending"),
			}},
		{"waiting-for-volume", "waits for a PersistentVolumeClaim that does not exist",
			"create it, or correct its name under volumes", []string{
				vm("running: true", "printableStatus: ErrorPvcNotFound"),
			}},
		{"crash-loop", "fails at each start: 3 in a row, the next is at 2026-11-22 10:00:00 UTC",
			"", []string{
				vm("running: true",
					"printableStatus: CrashLoopBackOff, startFailure: {consecutiveFailCount: 3, "+
						"retryAfterTimestamp: '2026-11-22T10:00:00Z'}"), instance("phase: Failed"),
			}},
		{"starting", "is starting (Starting)", "", []string{
			vm("running: true", "printableStatus: Starting"),
		}},
		{"starting", "is starting: its VMI has no pod yet", "", []string{instance("")}},
		{"starting", "is starting: its pod does not run yet", "", []string{
			vm("running: true", "printableStatus: ErrorUnschedulable"),
			instance("phase: Scheduling"),
		}},
		{"starting", "is starting: its pod runs, and the domain does not", "", []string{
			instance("phase: Scheduled"),
		}},
		{"running", "runs on node gpu-1", "", []string{running, instance("phase: Running")}},
		{"starting", "is starting: its pod runs, and the domain does not", "", []string{
			"uos$ kubectl get vmi\nNAME    AGE     PHASE        IP             NODENAME   " +
				"READY\nother   17m     Running      192.168.0.51   gpu-2      True\n" +
				"vm      5m49s   Scheduled                   gpu-1      False\n",
		}},
		{"not-ready", "runs on node gpu-1 and is not ready (READY is False)",
			"virtctl console vm shows what the guest prints", []string{
				"NAMESPACE NAME AGE PHASE IP NODENAME READY\nml vm 5m49s Running 10.0.0.1 gpu-1 False\n",
			}},
		{"starting", "is starting (ErrorUnschedulable)", "", []string{
			"NAME   AGE   STATUS               READY\nvm     64s   ErrorUnschedulable   False\n",
		}},
		{"running", "runs on node gpu-1", "", []string{instance("phase: Running"),
			"NAME   AGE   PHASE       IP   NODENAME   READY\n" +
				"vm     64s   Scheduled        gpu-1      False\n",
		}},
		{"not-ready",
			"runs on node gpu-1 and is not ready (GuestNotRunning: Guest VM is not reported as running)",
			"virtctl console vm shows what the guest prints", []string{
				running,
				instance(condition("Ready", "False", "GuestNotRunning",
					"Guest VM is not reported as running")),
			}},
		{"paused", "is paused after an I/O error of a volume",
			"see that the storage has room and answers, then virtctl unpause vm vm", []string{
				instance(condition("Paused", "True", "PausedIOError",
					"VMI was paused, low-level IO error detected")),
			}},
		{"stopping", "is stopping: the guest has until 2026-11-22 10:10:30 UTC to shut down, a grace " +
			"period of 630 s", "shut the guest down from inside; virtctl stop vm --force --grace-period " +
			"0 ends it at once, as a loss of power would", []string{
			vm("running: false", "printableStatus: Stopping"),
			`{kind: VirtualMachineInstance, metadata: {name: vm, namespace: ml, uid: u1,
				deletionTimestamp: "2026-11-22T10:00:00Z"}, status: {phase: Running, nodeName: gpu-1}}`,
			`{kind: Pod, metadata: {name: virt-launcher-vm-x7k2p, namespace: ml,
				labels: {kubevirt.io/created-by: u1}, deletionTimestamp: "2026-11-22T10:10:30Z",
				deletionGracePeriodSeconds: 630}, status: {phase: Running}}`,
		}},
		{"paused", "is paused: VMI was paused by user", "virtctl unpause vm vm", []string{
			instance(condition("Paused", "True", "PausedByUser", "VMI was paused by user")),
		}},
		{"migrating", "is migrating from node gpu-1 to gpu-2", "", []string{
			running,
			instance("phase: Running, migrationState: {sourceNode: gpu-1, targetNode: gpu-2}"),
		}},
		{"running", "runs on node gpu-1", "", []string{
			running,
			instance("phase: Running, migrationState: {sourceNode: gpu-2, targetNode: gpu-1, " +
				"completed: true}"),
		}},
		{"evicted", "has to leave node gpu-1, which is being drained",
			"stop it if it cannot migrate: virtctl stop vm", []string{
				running, instance("phase: Running, evacuationNodeName: gpu-1"),
			}},
		{"stopping", "is being deleted", "", []string{
			vm("running: true", "printableStatus: Terminating"), instance("phase: Running"),
		}},
		{"failed", "has failed: its VMI ended with an error", "", []string{
			instance("phase: Failed"),
		}},
		{"failed", "has failed: its VMI ended with an error", "virtctl start vm", []string{
			vm("runStrategy: Once", "printableStatus: Stopped"), instance("phase: Failed"),
		}},
		{"stopped", "has ended: the guest shut down", "virtctl start vm", []string{
			vm("runStrategy: RerunOnFailure", "printableStatus: Stopped"),
			instance("phase: Succeeded"),
		}},
	} {
		s := evidence(tt.objects...).Diagnose().State
		expect.Same(t, [3]string{
			tt.name, tt.text, tt.todo,
		}, [3]string{s.Name, s.Text, s.ToDo}, "%q: state (-want +got)", tt.objects)
	}

	s := evidence(running,
		instance(condition("LiveMigratable", "False", "HostDeviceNotLiveMigratable",
			"VMI uses a PCI host devices"))).Diagnose().State

	expect.Same(t, []string{
		"it cannot migrate: VMI uses a PCI host devices, gpu1 (nvidia.com/GH100), nic1 (of a claim)",
	}, s.Notes, "notes (-want +got)")

	// A VM's status may be all that is left of why its pod does not run.
	if got := causes(evidence(vm("running: true", "printableStatus: ImagePullBackOff"),
		instance("phase: Scheduling")).Diagnose().Causes); got != "image-pull" {
		t.Errorf("the image is not pulled: causes %q", got)
	}

	// What went wrong before it was stopped on purpose is past.
	r := evidence(vm("runStrategy: Halted", "printableStatus: Stopped"),
		event(vmi, "SyncFailed", "10:00:00", noMemlock)).Diagnose()
	if causes(r.Causes) != "" || causes(r.History) != "locked-memory" {
		t.Errorf("stopped: %+v", r)
	}
}

// TestSlow: a start that only takes long is told from one that fails.
func TestSlow(t *testing.T) {
	const (
		scheduled = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"status: {phase: Scheduled, nodeName: gpu-1}\n"
		qemu = `{"component":"virt-launcher","level":"info",` +
			`"msg":"2026-11-22 10:00:00.362+0000: starting up libvirt version: 11.10.0, ` +
			`package: 12.el9, qemu version: 10.1.0","subcomponent":"qemu",` +
			`"timestamp":"2026-11-22T10:00:00Z"}` + "\n"
		slow     = "is starting: QEMU runs since 2026-11-22 10:00:00 UTC, and maps memory and BARs"
		starting = "is starting: its pod runs, and the domain does not"
	)

	node := func(name, kernel string) string {
		return "kind: Node\nmetadata: {name: " + name + "}\nstatus: {nodeInfo: {kernelVersion: " +
			kernel + "}}\n"
	}

	late := event(vmi, "SyncFailed", "10:00:20",
		"unknown error encountered sending command SyncVMI: rpc error: code = DeadlineExceeded "+
			"desc = context deadline exceeded")
	for name, tt := range map[string]struct {
		texts        []string
		want, causes string
	}{
		"it runs": {[]string{scheduled, qemu}, slow, ""},
		"it was started before": {[]string{
			scheduled, strings.ReplaceAll(qemu, "T10:00:00Z", "T09:50:00Z") + qemu,
		}, slow, ""},
		"virt-handler waits": {[]string{scheduled, qemu, late}, slow, "slow-start"},
		"the node is known": {
			[]string{scheduled, qemu, node("gpu-2", "6.15.0"), node("gpu-1", "6.8.0-45-generic")},
			slow + " with Linux 6.8.0-45-generic on node gpu-1", "",
		},
		"an attempt before": {[]string{
			scheduled, qemu, event(vmi, "SyncFailed", "09:59:00", notViable),
		}, slow, ""},
		"it failed since": {[]string{
			scheduled, qemu, event(vmi, "SyncFailed", "10:00:01", notViable),
		}, starting, "group-not-viable"},
		"an error since": {[]string{
			scheduled, qemu, event(vmi, "SyncFailed", "10:00:01", "nobody knows"),
		}, starting, ""},
		"no QEMU":                {[]string{scheduled}, starting, ""},
		"the domain has started": {[]string{scheduled, qemu + started}, starting, ""},
	} {
		r := evidence(tt.texts...).Diagnose()
		if r.State.Text != tt.want || causes(r.Causes) != tt.causes {
			t.Errorf("%s: %s, causes %q", name, r.State.Text, causes(r.Causes))
		}
	}
}
