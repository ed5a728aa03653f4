package why

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
)

// normal returns an event that is no warning, as kubectl prints it.
func normal(object, reason, at, message string) string {
	return strings.Replace(event(object, reason, at, message), "type: Warning", "type: Normal", 1)
}

const (
	pod         = "Pod/virt-launcher-vm-x7k2p"
	unscheduled = "0/1 nodes are available: 1 Insufficient nvidia.com/GH100."
	unconnected = "unable to create virt-launcher client connection: context deadline exceeded"
	refused     = `server error. command SyncVMI failed: "rpc error: code = FailedPrecondition ` +
		`desc = strict: 0000:66:00.0 is not placed: no-guest-numa"`
	busy = `{"component":"virt-launcher","level":"error",` +
		`"msg":"vfio 0000:01:00.0: failed to open /dev/vfio/1: Device or resource busy",` +
		`"timestamp":"2026-11-22T10:00:00Z"}` + "\n"
	started = `{"component":"virt-launcher","kind":"","level":"info","msg":"Domain started.",` +
		`"name":"vm","namespace":"ml","timestamp":"2026-11-22T10:05:00Z"}` + "\n"
)

// TestHistory: what a later line says is passed is no cause any more, but what the VM got past.
func TestHistory(t *testing.T) {
	failed := func(image, at string) string {
		return event(pod, "Failed", at, `Failed to pull image "`+image+`": not found`)
	}

	pulled := func(image, at string) string {
		return normal(pod, "Pulled", at, `Successfully pulled image "`+image+`" in 3s`)
	}

	inContainer := func(container, text string) string {
		return strings.Replace(text, "involvedObject: {",
			"involvedObject: {fieldPath: 'spec.containers{"+container+"}', ", 1)
	}

	for _, tt := range []struct {
		name            string
		texts           []string
		causes, history string
	}{
		{"scheduled later", []string{
			event(pod, "FailedScheduling", "10:00:00", unscheduled),
			normal(pod, "Scheduled", "10:01:00", "assigned"),
		}, "", "no-node"},
		{"scheduled before", []string{
			event(pod, "FailedScheduling", "10:02:00", unscheduled),
			normal(pod, "Scheduled", "10:01:00", "assigned"),
		}, "no-node", ""},
		{"the scheduler's last word", []string{
			event(pod, "FailedScheduling", "10:00:00",
				"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
			event(pod, "FailedScheduling", "10:01:00", unscheduled),
		}, "no-node", ""},
		{"another VM is scheduled", []string{
			event(pod, "FailedScheduling", "10:00:00", unscheduled),
			normal("Pod/virt-launcher-other-abcde", "Scheduled", "10:01:00", "assigned"),
		}, "no-node", ""},
		{"pulled later", []string{
			failed("a", "10:00:00"), pulled("a", "10:01:00"),
		}, "", "image-pull"},
		{"another image is pulled", []string{
			failed("a", "10:00:00"), pulled("b", "10:01:00"),
		}, "image-pull", ""},
		{"another container is started", []string{
			inContainer("hook-sidecar-0", failed("a", "10:00:00")),
			inContainer("compute", normal(pod, "Started", "10:01:00", "Started container compute")),
		}, "image-pull", ""},
		{"the container is started", []string{
			inContainer("hook-sidecar-0", failed("a", "10:00:00")),
			inContainer("hook-sidecar-0",
				normal(pod, "Started", "10:01:00", "Started container hook-sidecar-0")),
		}, "", "image-pull"},
		{"busy, then started", []string{busy + started}, "", ""}, // it runs
		{"busy, then started, and its VMI does not run", []string{
			busy + started,
			"kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\nstatus: {phase: Failed}\n",
		}, "", "device-in-use"},
		{"started, then busy", []string{
			strings.Replace(busy, "10:00", "10:06", 1) + started,
		}, "device-in-use", ""},
		{"containers are started, the domain is not", []string{
			event(vmi, "SyncFailed", "10:00:00", noMemlock),
			normal(pod, "Started", "10:01:00", "Started container compute"),
		}, "locked-memory", ""},
		// virt-handler leaves a condition as it is while its reason is the same (KubeVirt
		// pkg/controller/conditions.go, CheckFailure). Only the event has what the hook said.
		{"the condition keeps the first failure", []string{
			"kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
				"status: {phase: Scheduled, conditions: [{type: Synchronized, status: 'False', " +
				"reason: Synchronizing with the Domain failed., message: '" + unconnected + "'}]}\n",
			event(vmi, "SyncFailed", "10:00:00", unconnected),
			event(vmi, "SyncFailed", "10:03:00", refused),
		}, "strict", ""},
		{"the VMI's phases", []string{
			event(pod, "FailedScheduling", "10:00:00", unscheduled),
			"kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
				"status: {phase: Scheduled, phaseTransitionTimestamps: [{phase: Scheduled, " +
				"phaseTransitionTimestamp: '2026-11-22T10:01:00Z'}]}\n",
		}, "", "no-node"},
		{"a table",
			[]string{"LAST SEEN   TYPE      REASON             OBJECT                       MESSAGE\n" +
				"5m12s       Warning   FailedScheduling   pod/virt-launcher-vm-x7k2p   " +
				unscheduled +
				"\n" +
				"2m          Normal    Scheduled          pod/virt-launcher-vm-x7k2p   " +
				"Successfully assigned ml/virt-launcher-vm-x7k2p to gpu-1\n" +
				"58s         Warning   SyncFailed         virtualmachineinstance/vm    " +
				noMemlock +
				"\n"}, "locked-memory", "no-node"},
		{"kubectl describe",
			[]string{"Name:             virt-launcher-vm-x7k2p\nNamespace:        ml\nEvents:\n" +
				"  Type     Reason            Age                 From               Message\n" +
				"  Warning  FailedScheduling  4m (x3 over 5m12s)  default-scheduler  " +
				unscheduled +
				"\n" +
				"  Normal   Scheduled         2m                  default-scheduler  " +
				"Successfully assigned\n"}, "", "no-node"},
		{"a log without times", []string{
			"qemu-kvm: group 1 is not viable\n" + `{"msg":"Domain started."}` + "\n",
		}, "", ""},
	} {
		r := evidence(tt.texts...).Diagnose()
		if causes(r.Causes) != tt.causes || causes(r.History) != tt.history {
			t.Errorf("%s: causes %q, want %q; history %q, want %q", tt.name, causes(r.Causes),
				tt.causes, causes(r.History), tt.history)
		}

		for _, f := range r.History {
			if f.Past == nil || f.Past.Source == "" {
				t.Errorf("%s: nothing ends %s", tt.name, f.Name)
			}
		}
	}
}

// TestNewest: the cause of each fixture is named whatever the newest event is: an error that
// names no cause, or what goes well in the next attempt. Where that is past the cause's stage it
// is history. Every fifth place of a fixture is tried, with WHOLE=1 each.
func TestNewest(t *testing.T) {
	const later = "2126-11-22T10:00:00Z" // than all fixtures
	at := func(text string) string {
		return strings.Replace(text, "2026-11-22T10:00:00Z", later, 1)
	}

	unknown := at(event(vmi, "SyncFailed", "10:00:00", "nobody knows"))
	well := map[Stage][]string{
		StageCreate: {at(normal("VirtualMachine/vm", "Other", "10:00:00", "well"))},
		StageSchedule: {at(normal(vmi, "SuccessfulCreate", "10:00:00",
			"Created virtual machine pod"))},
		StageContainer: {at(normal(pod, "Scheduled", "10:00:00", "assigned"))},
		StageHook:      {at(normal(pod, "Started", "10:00:00", "Started container compute"))},
		StageStart:     {at(normal(pod, "Started", "10:00:00", "Started container compute"))},
	}

	notReady := "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
		"status: {phase: Scheduled}\n"
	for want, places := range fixtures(t) {
		for i, place := range places {
			if !expect.IsSampled(i, 5) {
				continue
			}

			for name, newest := range map[string][]string{
				"none": nil, "an unknown error": {unknown}, "healthy": nil,
			} {
				e := evidence(string(place.Data))
				stage := e.Diagnose().Causes[0].Stage
				if name == "healthy" {
					newest = well[stage]
				}

				for _, text := range newest {
					e.Add("a file", []byte(text))
				}

				if got := chief(e.Diagnose().Causes); got != want {
					t.Errorf("%s of %s, newest event %s: causes %q", place.Name, want, name, got)
				}
			}

			e := evidence(string(place.Data), notReady)
			e.Add("a file", []byte(strings.Replace(started, "2026", "2126", 1)))
			r := e.Diagnose()
			all := chief(append(r.Causes, r.History...))
			if all != want && !isOfItsNode(want) {
				t.Errorf("%s of %s, started later: %q", place.Name, want, all)
			}
		}
	}
}

// isOfItsNode reports whether a cause is a fact about a VM on its node, so not of one that is started
// anew.
func isOfItsNode(cause string) bool {
	return cause == "device-not-in-domain" || cause == "node-not-ready" || cause == "finalizer-holds"
}

// TestHealthy: VMs that run after failed attempts, as objects or logs have it, have no cause and no
// error.
func TestHealthy(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "healthy", "*.txtar"))
	expect.NoError(t, err)
	if len(files) < 10 {
		t.Fatalf("%d VMs", len(files))
	}

	for _, file := range files {
		e := &Evidence{Report: Report{Namespace: "ml", Name: "dgx"}}
		for _, f := range txtar.Parse(expect.File(t, file)).Files {
			expect.NoError(t, e.AddFile(f.Name, f.Data))
		}

		expect.NoError(t, e.Missing())
		r := e.Diagnose()
		if len(r.Causes)+len(r.History)+len(r.Errors) > 0 || !r.Runs() {
			t.Errorf("%s: %+v", file, r)
		}

		if !hasOldError(t, file) {
			t.Errorf("%s has no old error", file)
		}
	}
}

// hasOldError reports whether files have a message of a cause.
func hasOldError(t *testing.T, file string) bool {
	t.Helper()
	for _, line := range lines(string(expect.File(t, file))) {
		if causeIndex().find(line) != nil {
			return true
		}
	}

	return strings.Contains(string(expect.File(t, file)), "exitCode: 2") // of the hook
}
