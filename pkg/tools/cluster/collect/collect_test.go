package collect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/tools/cluster/collect"
	"hook-sidecar/test/apiserver"
	"hook-sidecar/test/expect"
)

// objects has a VM that runs, of which events and migrations may not be listed, another VM, a pod
// of a user, and virt-handler.
const objects = `
kind: VirtualMachineInstance
apiVersion: kubevirt.io/v1
metadata: {name: one, namespace: default, uid: uid-one}
spec: {domain: {devices: {}}, volumes: [{persistentVolumeClaim: {claimName: disk-one}}]}
status: {phase: Running, nodeName: node-1}
---
kind: VirtualMachineInstance
apiVersion: kubevirt.io/v1
metadata: {name: two, namespace: default, uid: uid-two}
status: {phase: Running, nodeName: node-1}
---
kind: Pod
metadata:
  name: virt-launcher-one
  namespace: default
  labels: {kubevirt.io: virt-launcher, kubevirt.io/created-by: uid-one}
spec: {nodeName: node-1}
status: {phase: Running, containerStatuses: [{name: compute, state: {running: {}}}]}
---
kind: Pod
metadata: {name: users, namespace: default, annotations: {note: of-the-user}}
spec:
  nodeName: node-1
  containers: [{name: app, image: of-the-user, resources: {limits: {example.com/gpu: "1"}}}]
status: {phase: Running}
---
kind: Pod
metadata: {name: ended, namespace: default}
spec: {nodeName: node-1}
status: {phase: Succeeded}
---
kind: Pod
metadata: {name: virt-handler-x, namespace: kubevirt, labels: {kubevirt.io: virt-handler}}
spec: {nodeName: node-1}
status: {phase: Running, containerStatuses: [{name: virt-handler, state: {running: {}}}]}
---
kind: PersistentVolumeClaim
metadata: {name: disk-one, namespace: default}
---
kind: PersistentVolumeClaim
metadata: {name: disk-two, namespace: default}
---
kind: Node
metadata: {name: node-1}
status: {images: [{names: [of-the-node]}], allocatable: {cpu: "4"}}
---
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
status: {observedKubeVirtVersion: v1.9.0}
---
kind: Container
metadata: {name: compute, namespace: default}
pod: virt-launcher-one
log: |
  a line of compute
---
kind: Container
metadata: {name: virt-handler, namespace: kubevirt}
pod: virt-handler-x
log: |
  {"msg":"of one","name":"one","namespace":"default"}
  {"msg":"of two","name":"two","namespace":"default"}
  {"msg":"of another namespace","name":"one","namespace":"other"}
  default/one by its key
  default/one-more is another
  uid-one by its uid
---
kind: Refusal
verb: list
resource: events
`

// start serves a cluster and returns a collector of it.
func start(t *testing.T, text string) *collect.Collector {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(text), 0o600))
	served, err := apiserver.Read(dir, "cluster.yaml")
	expect.NoError(t, err)
	server := served.Start()
	t.Cleanup(server.Close)

	client, err := cluster.New(&rest.Config{Host: server.URL})
	expect.NoError(t, err)
	return &collect.Collector{Client: client, Tool: "test", Progress: func(string) {}}
}

// TestCollect: an archive has what is about the VM. Of others it has what they take of the nodes,
// of KubeVirt's logs the lines about the VM. What cannot be read is a gap, and loses nothing else.
func TestCollect(t *testing.T) {
	a, err := start(t, objects).Collect(t.Context(), types.NamespacedName{
		Namespace: "default", Name: "one",
	})
	expect.NoError(t, err)

	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}

	log := func(namespace, pod, container string) string {
		name := archive.OfPod(namespace, pod, archive.LogOf(container, false))
		return strings.TrimSpace(files[name])
	}

	expect.Same(t, "a line of compute", log("default", "virt-launcher-one", "compute"),
		"the VM's log (-want +got)")
	handler := log("kubevirt", "virt-handler-x", "virt-handler")
	if n := strings.Count(handler, "\n") + 1; n != 3 || strings.Contains(handler, "of two") ||
		strings.Contains(handler, "another") {
		t.Errorf("virt-handler's log has %d lines, want the three about the VM:\n%s", n, handler)
	}

	for resource, want := range map[string][]string{
		"virtualmachineinstances": {"one"},
		"persistentvolumeclaims":  {"disk-one"},
		"nodes":                   {"node-1"},
		"pods":                    {"users", "virt-handler-x", "virt-launcher-one"},
	} {
		text := files[archive.ObjectsOf(resource)]
		if got := names(t, text); !slices.Equal(want, got) {
			t.Errorf("%s: %q, want %q", resource, got, want)
		}

		for _, private := range []string{"of-the-user", "of-the-node"} {
			if strings.Contains(text, private) {
				t.Errorf("%s has %s", resource, private)
			}
		}
	}

	if pods := files[archive.ObjectsOf("pods")]; !strings.Contains(pods, "example.com/gpu") {
		t.Errorf("no pod takes example.com/gpu of its node:\n%s", pods)
	}

	if version := a.Versions["KubeVirt"]; version != "v1.9.0" {
		t.Errorf("KubeVirt %q", version)
	}

	// Nothing prints the domain in this cluster.
	for _, what := range []string{
		archive.Objects("default", "events"),
		archive.OfPod("default", "virt-launcher-one", archive.DomainName),
	} {
		at := slices.IndexFunc(a.Unread, func(g archive.Gap) bool { return g.What == what })
		if at < 0 || a.Unread[at].Why == "" {
			t.Errorf("no gap %s: %v", what, a.Unread)
		}
	}
}

// names returns the names of a list's objects, sorted.
func names(t *testing.T, text string) (all []string) {
	t.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}

	for _, item := range list.Items {
		all = append(all, item.Metadata.Name)
	}

	slices.Sort(all)
	return all
}

// TestCollectMisspelled: a VM that does not exist is an error that names the one meant.
func TestCollectMisspelled(t *testing.T) {
	a, err := start(t, objects).Collect(t.Context(), types.NamespacedName{
		Namespace: "default", Name: "onee",
	})
	if err == nil || !strings.Contains(err.Error(), "there is no VM default/onee") {
		t.Errorf("%v, error %v", a, err)
	}
}

// offering has a VM that waits for a node, a driver's pod that crashes, whose log may not be read in
// one namespace, an app that crashes, and virt-handler of a node.
const offering = `
kind: VirtualMachineInstance
apiVersion: kubevirt.io/v1
metadata: {name: one, namespace: default, uid: uid-one}
status: {phase: Scheduling}
---
kind: Pod
metadata:
  name: virt-launcher-one
  namespace: default
  labels: {kubevirt.io: virt-launcher, kubevirt.io/created-by: uid-one}
status: {phase: Pending}
---
kind: Pod
metadata: {name: nvidia-driver-runtime-x, namespace: drivers, annotations: {note: of-the-driver}}
spec: {nodeName: node-1, containers: [{name: ctr, image: of-the-driver, args: [of-the-driver]}]}
status:
  phase: Running
  containerStatuses:
  - name: ctr
    restartCount: 14
    state: {waiting: {reason: CrashLoopBackOff, message: back-off}}
    lastState: {terminated: {exitCode: 1}}
---
kind: Pod
metadata: {name: sriov-device-plugin-x, namespace: nics}
spec: {nodeName: node-1}
status: {phase: Running, containerStatuses: [{name: plugin, ready: true, state: {running: {}}}, {name: second, state: {running: {}}}]}
---
kind: Pod
metadata: {name: shop, namespace: drivers}
spec: {nodeName: node-1}
status: {phase: Running, containerStatuses: [{name: app, state: {running: {}}}]}
---
kind: Pod
metadata: {name: virt-handler-x, namespace: kubevirt, labels: {kubevirt.io: virt-handler}}
spec: {nodeName: node-1}
status: {phase: Running, containerStatuses: [{name: virt-handler, state: {running: {}}}]}
---
kind: Event
metadata: {name: one, namespace: drivers}
involvedObject: {kind: Pod, name: nvidia-driver-runtime-x, namespace: drivers}
type: Warning
reason: BackOff
message: token=abcdefghijklmnop0123456789 of the driver
---
kind: Event
metadata: {name: two, namespace: drivers}
involvedObject: {kind: Pod, name: shop, namespace: drivers}
type: Warning
reason: BackOff
---
kind: Container
metadata: {name: ctr, namespace: drivers}
pod: nvidia-driver-runtime-x
previous: |
  ERROR: Unable to load the kernel module, password=abcdefghijklmnop
---
kind: Container
metadata: {name: virt-handler, namespace: kubevirt}
pod: virt-handler-x
log: |
  {"level":"error","component":"virt-handler","msg":"failed to create mdev type"}
  {"level":"error","component":"virt-handler","msg":"failed to create mdev type","name":"two","namespace":"default"}
  {"level":"info","component":"virt-handler","msg":"mdev types"}
---
kind: Refusal
metadata: {namespace: nics}
verb: get
resource: pods/log
`

// TestCollectOffers: of a VM that waits for a node an archive has what says why nodes offer no devices:
// the states, the logs and the events of pods that make or offer them, without secrets and within
// limits. A right that is missing is said once.
func TestCollectOffers(t *testing.T) {
	a, err := start(t, offering).Collect(t.Context(), types.NamespacedName{
		Namespace: "default", Name: "one",
	})
	expect.NoError(t, err)
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}

	pods, events := files[archive.ObjectsOf("pods")], files[archive.ObjectsOf("events")]
	if !strings.Contains(pods, "CrashLoopBackOff") || strings.Contains(pods, "of-the-driver") {
		t.Errorf("pods:\n%s", pods)
	}

	expect.Same(t, []string{"one"}, names(t, events), "events (-want +got)")
	log := files[archive.OfPod("drivers", "nvidia-driver-runtime-x", archive.LogOf("ctr", true))]
	if !strings.Contains(log, "Unable to load") || strings.Contains(log+events, "abcdefghijklmnop") {
		t.Errorf("log %q, events:\n%s", log, events)
	}

	handler := files[archive.OfPod("kubevirt", "virt-handler-x", archive.LogOf("virt-handler", false))]
	if n := strings.Count(handler, "mdev type"); n != 1 {
		t.Errorf("virt-handler's log has %d lines, want the one about what it offers:\n%s", n, handler)
	}

	if log := files[archive.OfPod("drivers", "shop", archive.LogOf("app", false))]; log != "" {
		t.Errorf("the log of an app: %q", log)
	}

	refused := 0
	for _, gap := range a.Unread {
		if strings.Contains(gap.What, "nics") {
			refused++
		}
	}

	if refused != 1 {
		t.Errorf("%d gaps about logs that may not be read, want 1: %v", refused, a.Unread)
	}
}
