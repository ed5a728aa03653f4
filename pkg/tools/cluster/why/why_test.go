package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hook-sidecar/test/expect"
)

// causes returns the names of findings.
func causes(findings []FoundCause) string {
	var names []string
	for _, f := range findings {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

// chief returns the names of findings without the causes that the first of them needs or explains.
func chief(findings []FoundCause) string {
	isNeeded := func(f FoundCause) bool {
		return slices.Contains(findings[0].Needs, f.Name) ||
			slices.Contains(findings[0].Explains, f.Name)
	}
	return causes(slices.DeleteFunc(slices.Clone(findings), isNeeded))
}

// event returns an event as kubectl prints it.
func event(object, reason, at, message string) string {
	kind, name, _ := strings.Cut(object, "/")
	return fmt.Sprintf("kind: Event\ntype: Warning\nreason: %s\n"+
		"involvedObject: {kind: %s, name: %s, namespace: ml}\nlastTimestamp: %q\nmessage: %q\n",
		reason, kind, name, "2026-11-22T"+at+"Z", message)
}

const (
	vmi       = "VirtualMachineInstance/vm"
	notViable = "server error. command SyncVMI failed: \"LibvirtError(Code=1, Domain=10, " +
		"Message='internal error: qemu unexpectedly closed the monitor: " +
		"2026-11-22T10:00:00.500000Z qemu-kvm: -device vfio-pci,host=0000:01:00.0: vfio " +
		"0000:01:00.0: group 1 is not viable\\nPlease ensure all devices within the iommu_group " +
		"are bound to their vfio bus driver.')\""
	noMemlock = "cannot limit locked memory of process 121 to 13690208256: Operation not permitted"
)

// TestAttempts: of several attempts to start, the last counts, and of a cause its last line.
func TestAttempts(t *testing.T) {
	found := evidence(
		event(vmi, "SyncFailed", "10:03:00", notViable),
		event(vmi, "SyncFailed", "10:01:00", noMemlock),
		event("Pod/virt-launcher-vm-x7k2p", "FailedScheduling", "10:00:00",
			"0/1 nodes are available: 1 Insufficient nvidia.com/GH100."),
		event(vmi, "SyncFailed", "10:02:00", notViable),
	).Diagnose().Causes

	expect.Same(t, "group-not-viable locked-memory no-node", causes(found), "causes (-want +got)")
	want := Line{
		Source: "event SyncFailed of VirtualMachineInstance vm",
		Time:   time.Date(2026, 11, 22, 10, 3, 0, 0, time.UTC),
		Text: "server error. command SyncVMI failed: \"LibvirtError(Code=1, Domain=10, " +
			"Message='internal error: qemu unexpectedly closed the monitor: " +
			"2026-11-22T10:00:00.500000Z qemu-kvm: -device vfio-pci,host=0000:01:00.0: vfio " +
			"0000:01:00.0: group 1 is not viable",
		Speaker: "QEMU",
	}

	if got := found[0].Line; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestOtherVMs: the names of pods begin alike, and the API server cuts a long one.
func TestOtherVMs(t *testing.T) {
	long := strings.Repeat("v", 60)
	for _, tt := range []struct {
		vm, pod string
		want    string
	}{
		{"vm", "virt-launcher-vm-x7k2p", "locked-memory"},
		{"vm", "virt-launcher-vm-a-x7k2p", ""},
		{"vm-a", "virt-launcher-vm-a-x7k2p", "locked-memory"},
		{"vm", "virt-launcher-v-x7k2p", ""},
		{long, ("virt-launcher-" + long)[:58] + "x7k2p", "locked-memory"},
	} {
		e := &Evidence{Report: Report{Namespace: "ml", Name: tt.vm}}
		e.Add("", []byte(event("Pod/"+tt.pod, "Failed", "10:00:00", noMemlock)))
		if got := causes(e.Diagnose().Causes); got != tt.want {
			t.Errorf("VM %s, pod %s: %q, want %q", tt.vm, tt.pod, got, tt.want)
		}

		e = &Evidence{Report: Report{Namespace: "other", Name: tt.vm}}
		e.Add("", []byte(event("Pod/"+tt.pod, "Failed", "10:00:00", noMemlock)))
		if got := causes(e.Diagnose().Causes); got != "" {
			t.Errorf("another namespace: %q", got)
		}
	}
}

// TestRuns: errors from before a VM ran do not matter any more; what its guest reports does.
func TestRuns(t *testing.T) {
	running := "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
		"status: {phase: Running, nodeName: gpu-1}\n"
	e := evidence(running, event(vmi, "SyncFailed", "10:00:00", noMemlock))
	if found := e.Diagnose().Causes; len(found) > 0 || e.Phase != "Running" || e.Node != "gpu-1" {
		t.Errorf("found %+v of %+v", found, e)
	}

	got := causes(evidence(running, "NVRM: BAR0 is 0M @ 0x0 (PCI:0000:08:00.0)").Diagnose().Causes)
	expect.Same(t, "bar-window", got, "causes (-want +got)")
}

// TestGuest: of what a guest reports the first failure counts, not what follows from it.
func TestGuest(t *testing.T) {
	running := "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
		"status: {phase: Running, nodeName: gpu-1}\n"
	found := evidence(running,
		"[1.0] NVRM: GPU0 RmInitAdapter: Cannot initialize GSP firmware RM\n"+
			"[1.1] NVRM: GPU 0000:08:00.0: RmInitAdapter failed! (0x62:0x40:2142)\n",
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.").Diagnose().Causes

	expect.Same(t, "gpu-firmware gpu-not-initialized no-guest-driver", causes(found),
		"causes (-want +got)")
}

// TestBoot: what a log has from before the last boot is past, of a node and of a guest.
func TestBoot(t *testing.T) {
	for _, boot := range []string{"-- Boot 4f1c2b5e --\n", "-- Reboot --\n"} {
		for text, want := range map[string]string{
			lostDevice + boot:              "",
			lostDevice + boot + lostDevice: "reset-failed",
			boot + lostDevice:              "reset-failed",
		} {
			starting := "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
				"status: {phase: Scheduled, nodeName: gpu-3}\n"
			expect.Same(t, want, causes(evidence(starting, text).Diagnose().Causes),
				"causes of %q (-want +got)", text)
		}
	}
}

// lostDevice is a line of a node's kernel.
const lostDevice = "Nov 24 20:00:00 gpu-3 kernel: vfio-pci 0000:c1:00.0: not ready 65535ms after " +
	"FLR; giving up\n"

// TestPlain: a message is found as its source printed it, whoever quotes it.
func TestPlain(t *testing.T) {
	const header = `internal error: Unknown PCI header type '127' for device '0000:c1:00.0'`
	once := strings.ReplaceAll(header, `'`, `\'`)
	for name, text := range map[string]string{
		"as it is":         header,
		"escaped":          once,
		"escaped twice":    strings.ReplaceAll(header, `'`, `\\\'`),
		"XML":              strings.ReplaceAll(header, `'`, "&apos;"),
		"numbers of XML":   strings.ReplaceAll(header, `'`, "&#39;"),
		"unicode":          strings.ReplaceAll(header, `'`, `\u0027`),
		"colours":          "\x1b[31minternal error\x1b[0m: Unknown PCI \x1b[1mheader\x1b[0m type '127' for",
		"escaped colours":  `\u001b[31minternal error\u001b[0m: Unknown PCI header type '127' for`,
		"two lines in one": `nothing\\n` + once,
		"broken": strings.Repeat("x", 60) + " internal error: Unknown PCI hea\nder type '127' " +
			"for device '0000:c1:00.0'",
		"broken between words": strings.Repeat("x", 60) + " internal error: Unknown PCI header\n" +
			"    type '127' for device '0000:c1:00.0'",
	} {
		found := evidence("error: " + text + "\n").Diagnose().Causes
		if causes(found) != "device-lost" || strings.Contains(found[0].Line.Text, "\x1b") ||
			strings.Contains(found[0].Line.Text, `\'`) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestForms: objects as kubectl and the API server print them, and logs with the prefixes
// of kubectl and of container runtimes.
func TestForms(t *testing.T) {
	ended := `{"metadata": {"name": "virt-launcher-vm-x7k2p"}, "status": {"containerStatuses": ` +
		`[{"name": "compute", "restartCount": 1, "lastState": {"terminated": {"exitCode": 1, ` +
		`"reason": "Error", "message": "` + noMemlock + `"}}}]}}`
	entry := `{"component":"virt-launcher","level":"error","msg":"Failed to start","reason":"` +
		noMemlock + `","timestamp":"2026-11-22T10:00:00.5Z"}`
	for name, text := range map[string]string{
		"several documents": "kind: Node\nmetadata: {name: a}\n---\n" +
			event(vmi, "SyncFailed", "10:00:00", noMemlock) + "---\nkind: Node\n",
		"a List": `{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Event", ` +
			`"involvedObject": {"kind": "VirtualMachineInstance", "name": "vm"}, ` +
			`"message": "` + noMemlock + `"}]}`,
		"JSON after JSON": `{"kind": "Node", "metadata": {"name": "a"}}` + "\n" + `{"kind": "Event", ` +
			`"involvedObject": {"kind": "VirtualMachineInstance", "name": "vm"}, ` +
			`"message": "` + noMemlock + `"}`,
		"lists after each other": "kind: List\nitems: [{kind: Node}]\n" +
			"kind: List\nitems:\n- kind: Event\n  involvedObject: " +
			"{kind: VirtualMachineInstance, name: vm}\n  message: '" + noMemlock + "'\n",
		"the API server's list": `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[` +
			ended + `]}`,
		"an object of a wrong type": `{"kind": "Pod", "spec": [], ` +
			`"metadata": {"name": "virt-launcher-vm-x7k2p"}, "status": {"reason": "Failed", ` +
			`"message": "` + noMemlock + `"}}`,
		"objects and a log": "kind: Node\n---\n" + entry,
		"a file that was cut": event(vmi, "SyncFailed", "10:00:00", noMemlock) +
			"metadata: {name: [",
		"kubectl logs --prefix":     "[pod/virt-launcher-vm-x7k2p/compute] " + entry,
		"kubectl logs --timestamps": "2026-11-22T10:00:00.5Z " + entry,
		"containerd's file":         "2026-11-22T10:00:00.500000000Z stderr F " + entry + "\r",
		"kubectl describe": "  Warning  SyncFailed  7s  virt-handler  server error: " +
			noMemlock,
	} {
		found := evidence(text).Diagnose().Causes
		if causes(found) != "locked-memory" {
			t.Errorf("%s: %+v", name, found)
			continue
		}

		if at := found[0].Line.Time; strings.Contains(text, entry) &&
			!at.Equal(time.Date(2026, 11, 22, 10, 0, 0, 5e8, time.UTC)) {
			t.Errorf("%s: time %s", name, at)
		}
	}
}

// TestSecrets: what a user pastes into a report has no values of environment variables, no
// cloud-init data and no credentials, though the objects and logs have them everywhere.
func TestSecrets(t *testing.T) {
	const start = `{"level":"error","msg":"Failed to sync vmi",` +
		`"reason":"cannot limit locked memory of process 84`
	for place, text := range map[string]string{
		"env of the pod": "kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p}\n" +
			"spec: {containers: [{name: compute, env: [{name: A, value: s3cr3t}]}]}\n" +
			"status: {reason: Failed, message: no}\n",
		"env that admission refuses": event("Pod/virt-launcher-vm-x7k2p", "Failed", "10:00:00",
			`spec.containers[0].env[0]: Invalid value: "s3cr3t": HTTP_PROXY=http://u:s3cr3t@proxy must not`),
		"env in single quotes": event(vmi, "SyncFailed", "10:00:00",
			`<qemu:env name='TOKEN' value='s3cr3t'/> is not allowed`),
		"env in YAML": event(vmi, "SyncFailed", "10:00:00",
			"refused:\nenv:\n- name: A\n  value: s3cr3t"),
		"a value of two words": `{"level":"error","msg":"Env:[{Name:A Value:x s3cr3t ` +
			`ValueFrom:nil}] is refused"}`,
		"args of the pod": "kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p}\n" +
			"spec: {containers: [{name: compute, args: [--password=s3cr3t]}]}\n" +
			"status: {reason: Failed, message: no}\n",
		"annotation of the VMI": "kind: VirtualMachineInstance\n" +
			"metadata: {name: vm, annotations: " +
			"{kubectl.kubernetes.io/last-applied-configuration: s3cr3t}}\n" +
			"status: {conditions: [{type: Synchronized, status: 'False', message: no}]}\n",
		"cloud-init of the VMI": "kind: VirtualMachineInstance\nmetadata: {name: vm}\n" +
			"spec: {volumes: [{cloudInitNoCloud: {userData: s3cr3t, networkDataBase64: " +
			"s3cr3t}}, {sysprep: {secret: {name: s3cr3t}}}]}\n" +
			"status: {conditions: [{type: Synchronized, status: 'False', message: no}]}\n",
		"cloud-init of the template": "kind: VirtualMachine\nmetadata: {name: vm}\n" +
			"spec: {template: {spec: {volumes: [{cloudInitConfigDrive: {userDataBase64: " +
			"s3cr3t}}]}}}\nstatus: {conditions: [{type: Failure, status: 'True', message: no}]}\n",
		"cloud-init that a log quotes": `{"level":"error","msg":"Failed to sync vmi: ` +
			`\u0026VirtualMachineInstance{UserData:#cloud-config\npanic: s3cr3t,NetworkData:s3cr3t}"}`,
		"cloud-init after the cause": start + `: {\"userDataBase64\":\"s3cr3t\"}"}`,
		"variable of the cause": start +
			`, env NVIDIA_TOKEN=s3cr3t, pull https://u:s3cr3t@registry.example.com"}`,
		"variables that Go prints": `{"level":"error","msg":"Env:[{Name:A Value:s3cr3t} ` +
			`{Name:\"B\", Value:\"s3cr3t\"}] C=\"x s3cr3t\" and D=s3cr3t"}`,
		"command line of QEMU": `{"level":"error","msg":"LC_ALL=C TOKEN=s3cr3t /usr/libexec/qemu-kvm"}`,
		"cloud-init's log in the guest": "error: s3cr3t is the password\n" +
			"error: chpasswd root:s3cr3t\nfatal: cloud-init s3cr3t\nerror: ssh-rsa s3cr3t",
		"what no program reports": "runcmd: [echo s3cr3t]\ns3cr3t\n",
	} {
		r := evidence(text, event(vmi, "SyncFailed", "09:00:00", "another error")).Diagnose()
		data, err := json.Marshal(r)
		if err != nil || strings.Contains(fmt.Sprintf("%s %+v", data, r), "s3cr3t") ||
			!strings.Contains(string(data), "another error") {
			t.Errorf("%s: %v %s", place, err, data)
		}

		if strings.HasPrefix(text, start) && causes(r.Causes) != "locked-memory" {
			t.Errorf("%s: causes %q", place, causes(r.Causes))
		}
	}
}

// TestErrors: without a cause the last errors are shown, one of those that differ in numbers only,
// and first what ends a start.
func TestErrors(t *testing.T) {
	e := evidence(`{"level":"error","msg":"old","timestamp":"2026-11-22T09:00:00Z"}
{"level":"error","msg":"process 1 failed","timestamp":"2026-11-22T10:00:00Z"}
{"level":"error","msg":"process 22 failed","timestamp":"2026-11-22T10:01:00Z"}
{"level":"warning","msg":"warned","timestamp":"2026-11-22T10:02:00Z"}
{"level":"error","msg":"something else","timestamp":"2026-11-22T10:02:30Z"}
2026-11-22T10:03:00Z qemu-kvm: `+strings.Repeat("long ", 100)+`
2026-11-22T10:04:00Z panic: all is lost
goroutine 1 [running]:`, event(vmi, "SyncFailed", "10:05:00", "no idea"))

	r := e.Diagnose()
	if len(r.Causes) > 0 {
		t.Fatalf("found %+v", r.Causes)
	}

	var got []string
	for _, line := range r.Errors {
		got = append(got, line.Text)
	}

	want := []string{
		"2026-11-22T10:04:00Z panic: all is lost",
		("2026-11-22T10:03:00Z qemu-kvm: " + strings.Repeat("long ", 100))[:320] + "…" +
			strings.Repeat(" long", 32),
		"no idea",
		"something else",
		"process 22 failed",
	}

	expect.Same(t, want, got, "errors (-want +got)")
}

// TestErrorsOfRunning: a VM that runs has the errors since its start, and none of before; one that
// only its paused state keeps from running has all.
func TestErrorsOfRunning(t *testing.T) {
	const (
		paused  = `, conditions: [{type: Paused, status: "True"}]`
		started = `, phaseTransitionTimestamps: [{phase: Running, phaseTransitionTimestamp: "` +
			`2026-11-22T%sZ"}]`
	)

	for status, want := range map[string]int{
		"":                               0,
		paused:                           1,
		fmt.Sprintf(started, "10:06:00"): 0,
		fmt.Sprintf(started, "10:04:00"): 1,
	} {
		r := evidence("kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n"+
			"status: {phase: Running, nodeName: gpu-1"+status+"}\n",
			event(vmi, "SyncFailed", "10:05:00", "no idea")).Diagnose()
		if len(r.Errors) != want || !r.Runs() {
			t.Errorf("%s: errors %+v, want %d", r.State.Name, r.Errors, want)
		}
	}
}

// TestShares: of what the scheduler finds insufficient each node's share is shown.
func TestShares(t *testing.T) {
	node := func(name, has string) string {
		return fmt.Sprintf("kind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {%s}}\n", name,
			has)
	}

	pod := func(name, on, phase, has string) string {
		return fmt.Sprintf("kind: Pod\nmetadata: {name: %s, namespace: ml}\n"+
			"spec: {nodeName: %s, containers: [{resources: {requests: {%s}}}, {}]}\n"+
			"status: {phase: %s}\n", name, on, has, phase)
	}

	message := "0/2 nodes are available: 1 Insufficient hugepages-1Gi, 2 Insufficient " +
		"nvidia.com/GH100, 2 Insufficient mellanox.com/cx7. preemption: no"
	waiting := event("Pod/virt-launcher-vm-x7k2p", "FailedScheduling", "10:00:00", message)
	e := evidence(waiting, node("a", `nvidia.com/GH100: "8"`),
		node("b", `nvidia.com/GH100: "8", hugepages-1Gi: 64Gi`), node("c", `nvidia.com/GH100: "0"`),
		pod("vm-x", "a", "Running", `nvidia.com/GH100: "4"`),
		pod("vm-y", "a", "Pending", `nvidia.com/GH100: "4"`),
		pod("vm-z", "b", "Succeeded", `nvidia.com/GH100: "8"`),
		pod("vm-v", "b", "Running", "hugepages-1Gi: 32Gi"))

	want := []string{
		"hugepages-1Gi: node b has 64Gi, used by ml/vm-v (32Gi)",
		"nvidia.com/GH100: node a has 8, used by ml/vm-x (4), ml/vm-y (4)",
		"nvidia.com/GH100: node b has 8, used by no pod that was read",
		"nvidia.com/GH100: node c has 0",
		"mellanox.com/cx7: no node has it",
	}

	found := e.Diagnose().Causes
	expect.Same(t, want, found[0].Shares, "shares (-want +got)")
	if found = evidence(waiting).Diagnose().Causes; len(found[0].Shares) > 0 {
		t.Errorf("without nodes: %q", found[0].Shares)
	}

	many := []string{waiting}
	for i := range 100 {
		many = append(many, node(fmt.Sprint("n", i), `nvidia.com/GH100: "8"`))
	}

	got := evidence(many...).Diagnose().Causes[0].Shares
	if !slices.Contains(got, "nvidia.com/GH100: 88 more nodes have it") || len(got) > 20 {
		t.Errorf("100 nodes: %q", got)
	}
}

// TestErrorsOnce: what several sources say of one failure is one error, whoever quotes it, and a
// warning in an event's text makes it no less an error. Errors that all logs have are left out.
func TestErrorsOnce(t *testing.T) {
	const qemu = "2026-11-22T10:00:00.500000Z qemu-kvm: -device vfio-pci,host=0000:01:00.0: " +
		"nobody knows"
	quoted := func(who string) string {
		return who +
			"Message='internal error: QEMU unexpectedly closed the monitor (vm='ml_vm'): " + qemu +
			"')"
	}

	log := func(text string) string {
		return `{"component":"virt-launcher","level":"error","msg":"` + text +
			`","timestamp":"2026-11-22T10:00:00Z"}`
	}

	for name, texts := range map[string][]string{
		"one failure": {
			event(vmi, "SyncFailed", "10:00:03",
				quoted(`server error. command SyncVMI failed: "LibvirtError(Code=1, Domain=10, `)+
					`"`),
			"kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
				"status: {phase: Scheduled, conditions: [{type: Synchronized, status: 'False', " +
				"reason: Synchronizing, message: \"" +
				quoted(`server error. command SyncVMI failed: 'LibvirtError(Code=1, Domain=10, `) +
				"\"}]}\n",
			log(quoted("Failed to start VirtualMachineInstance: virError(Code=1, Domain=10, ")),
			log("internal error: QEMU unexpectedly closed the monitor (vm='ml_vm'): " + qemu),
			qemu,
		},
		"a warning in an event": {event(vmi, "SyncFailed", "10:00:00",
			"server error: qemu-kvm: warning: host doesn't support requested feature: nobody knows")},
		"noise": {
			event(vmi, "SyncFailed", "10:00:00", "nobody knows"),
			log("internal error: Child process (dmidecode -q -t 0,1) unexpected exit status 1: " +
				"/dev/mem: No such file or directory"),
			log("Guest agent is not responding: QEMU guest agent is not connected"),
			log("Unable to open /dev/vhost-vsock: No such file or directory"),
		},
	} {
		r := evidence(texts...).Diagnose()
		if len(r.Causes) > 0 || len(r.Errors) != 1 ||
			!strings.Contains(r.Errors[0].Text, "nobody knows") {
			t.Errorf("%s: %+v", name, r.Errors)
		}
	}
}

// TestOwnLines: of logs and tables about several VMs only this one's lines name its cause.
func TestOwnLines(t *testing.T) {
	handler := func(fields string) string {
		return `{"component":"virt-handler","level":"error",` +
			`"msg":"Synchronizing the VirtualMachineInstance failed.","reason":"` + noMemlock +
			`"` + fields + "}"
	}

	const prefixed = "/compute] qemu-kvm: " + noMemlock
	scheduling := "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
		"status: {phase: Scheduling}\n"
	for name, tt := range map[string]struct{ own, other string }{
		"virt-handler": {handler(`,"kind":"","name":"vm","namespace":"ml"`),
			handler(`,"kind":"","name":"dgx","namespace":"ml"`)},
		"another namespace": {handler(`,"kind":"","name":"vm","namespace":"ml"`),
			handler(`,"kind":"","name":"vm","namespace":"dev"`)},
		"a node": {handler(`,"kind":"","name":"vm"`),
			handler(`,"kind":"Node","name":"vm"`)},
		"no name": {handler(`,"error":"re-enqueuing ml/vm"`) +
			handler(`,"kind":"","name":"vm"`), handler("")},
		"--prefix": {"[pod/virt-launcher-vm-x7k2p" + prefixed,
			"[pod/virt-launcher-dgx-x7k2p" + prefixed},
		"stern": {"virt-launcher-vm-x7k2p compute qemu-kvm: " + noMemlock,
			"virt-launcher-dgx-x7k2p compute qemu-kvm: " + noMemlock},
		"libvirt": {"error: (vm='ml_vm'): " + noMemlock, "error: (vm='ml_dgx'): " +
			noMemlock},
		"a table": {"5s   Warning   SyncFailed   virtualmachineinstance/vm   " +
			noMemlock, "5s   Warning   SyncFailed   virtualmachineinstance/dgx   " + noMemlock},
		"a table, often": {
			"2m (x3 over 4m)   Warning   SyncFailed   virtualmachineinstance/vm   " + noMemlock,
			"2m (x3 over 4m)   Warning   SyncFailed   virtualmachineinstance/dgx   " + noMemlock,
		},
		"a table, unknown age": {
			"<unknown>   Warning   SyncFailed   virtualmachineinstance/vm   " + noMemlock,
			"<unknown>   Warning   SyncFailed   virtualmachineinstance/dgx   " + noMemlock,
		},
		"a table, -A": {"ml   5s   Warning   SyncFailed   virtualmachineinstance/vm   " + noMemlock,
			"dev   5s   Warning   SyncFailed   virtualmachineinstance/vm   " + noMemlock},
		"the hook": {
			`{"level":"ERROR","msg":"domain left unchanged","vmi":"ml/vm","error":"` + noMemlock +
				`"}`,
			`{"level":"ERROR","msg":"domain left unchanged","vmi":"ml/dgx","error":"` + noMemlock +
				`"}`,
		},
	} {
		for want, text := range map[string]string{"locked-memory": tt.own, "": tt.other} {
			e := &Evidence{Report: Report{Namespace: "ml", Name: "vm"}}
			e.Add("a file", []byte(scheduling))
			e.Add("a file", []byte(text))
			if got := causes(e.Diagnose().Causes); got != want {
				t.Errorf("%s: causes %q, want %q", name, got, want)
			}
		}
	}
}
