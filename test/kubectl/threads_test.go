package kubectl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// thread is a bundle of a set in pkg/tools/cluster/why/testdata, and where the cluster has it.
type thread struct {
	name, namespace, vm, cause string
	stored, pod                string // the VM's name in the cluster, and its pod's
	files                      []txtar.File
	isFull                     bool // the bundle says which namespace
}

// testThreads: what is printed about the VMs of threads has the same cause in an archive as in files:
// one archive has all these VMs.
func (c *cluster) testThreads(t *testing.T) {
	c.createCollector(t)
	all := threads(t)
	arguments := map[string][]string{} // VMs by namespace
	for i := range all {
		c.store(t, &all[i])
		arguments[all[i].namespace] = append(arguments[all[i].namespace], all[i].stored)
	}

	dir := t.TempDir()
	for namespace, vms := range arguments {
		file := filepath.Join(dir, namespace+".tar.gz")
		words := slices.Concat([]string{"collect", "-n", namespace, "--output-file", file}, vms)
		if r := c.as(t, "collector", words...); r.code != 0 ||
			strings.Contains(r.err, "you may not") {
			t.Fatalf("collect %s: exit status %d: %s", namespace, r.code, r.err)
		}
	}

	archived := 0
	for _, th := range all {
		loose, guest := th.write(t, filepath.Join(dir, th.name))
		asked := []string{th.vm}
		if th.isFull {
			asked = append(asked, "-n", th.namespace)
		}

		want := c.causes(t, slices.Concat(asked, loose, guest))
		archive := filepath.Join(dir, th.namespace+".tar.gz")
		from := []string{th.stored, "-n", th.namespace, "-f", archive}
		got := c.causes(t, slices.Concat(from, th.beside(filepath.Join(dir, th.name)), guest))
		if got != want {
			t.Errorf("%s: an archive has cause %q, the files %q", th.name, got, want)
		} else if first, _, _ := strings.Cut(got, " "); first == th.cause ||
			got == "" && th.cause == "none" {
			archived++
		}
	}

	t.Logf("of %d threads %d are named right from archives", len(all), archived)
	if len(all) < 80 || archived*10 < len(all)*9 {
		t.Errorf("of %d threads %d are named right from archives", len(all), archived)
	}
}

// threads reads the bundles.
func threads(t *testing.T) (all []thread) {
	t.Helper()
	names, err := filepath.Glob("../../pkg/tools/cluster/why/testdata/threads*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range names {
		bundle, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}

		th := thread{name: strings.TrimSuffix(filepath.Base(name), ".txtar"), files: bundle.Files}
		for line := range strings.Lines(string(bundle.Comment)) {
			switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
			case "vm":
				th.namespace, th.vm, th.isFull = strings.Cut(value, "/")
				if !th.isFull {
					th.namespace, th.vm = "of-"+th.name, value
				}
			case "cause":
				th.cause = value
			}
		}

		th.stored = strings.ToLower(th.vm) // RFC 1123, of a domain of libvirt
		isSame := func(o thread) bool {
			return o.namespace == th.namespace &&
				o.stored == th.stored
		}
		if !slices.ContainsFunc(all, isSame) {
			all = append(all, th)
		}
	}

	return all
}

// createCollector gives a user what manifests/kubectl gives for collect, in the whole cluster.
func (c *cluster) createCollector(t *testing.T) {
	t.Helper()
	manifest, err := os.ReadFile("../../manifests/kubectl/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		if role := fromYAML(t, []byte(document)); strings.Contains(document,
			"name: hostdev-collect\n") {
			c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"), role)
		}
	}

	c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: collector}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hostdev-collect}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: collector}]
`)))
}

// write writes the bundle's files, and returns the flags for them: for those of the cluster, and for
// those of the guest.
func (th thread) write(t *testing.T, dir string) (files, guest []string) {
	t.Helper()
	for _, f := range th.files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}

		write(t, name, string(f.Data))
		if strings.HasPrefix(f.Name, "guest/") {
			guest = append(guest, "--guest-file", name)
		} else {
			files = append(files, "-f", name)
		}
	}

	if files == nil { // why reads a cluster without one
		name := filepath.Join(dir, "none.log")
		write(t, name, "nothing\n")
		files = []string{"-f", name}
	}

	return files, guest
}

// causes returns the causes that why names.
func (c *cluster) causes(t *testing.T, arguments []string) string {
	t.Helper()
	r := c.as(t, "collector", append([]string{"why", "-o", "json"}, arguments...)...)
	var report struct{ Causes []struct{ Name string } }
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("why %v: %v: %v", arguments, err, r.err)
	}

	var names []string
	for _, cause := range report.Causes {
		names = append(names, cause.Name)
	}

	return strings.Join(names, " ")
}

// store makes the thread's VM in the cluster: its VMI with a condition, its pod, the events, and
// the logs of virt-launcher and virt-handler.
func (c *cluster) store(t *testing.T, th *thread) {
	t.Helper()
	c.createNamespace(t, th.namespace)
	events, conditions, logs := th.parts()
	stored := c.create(t, resource("kubevirt.io", "v1", "virtualmachineinstances"), map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": map[string]any{"name": th.stored, "namespace": th.namespace},
		"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}}},
		"status": map[string]any{
			"phase": "Scheduled", "nodeName": node, "conditions": conditions,
		},
	})

	launcher := pod(stored)
	launcher["metadata"].(map[string]any)["name"] = th.pod
	container := launcher["status"].(map[string]any)["containerStatuses"].([]any)[0].(map[string]any)
	if logs["compute"] == "" {
		launcher["status"].(map[string]any)["phase"] = "Pending"
		container["state"] = map[string]any{
			"waiting": map[string]any{"reason": "ContainerCreating"},
		}
	}

	c.create(t, resource("", "v1", "pods"), launcher)
	c.kubelet.add(th.pod+"/compute", in(c.launcher, "/none"))
	c.kubelet.logs.Store(th.namespace+"/"+th.pod+"/compute", logs["compute"])
	c.storeComponents(t, th, logs)
	for i, e := range events {
		e["metadata"] = map[string]any{
			"name": fmt.Sprintf("%s.%d", th.stored, i), "namespace": th.namespace,
		}
		c.create(t, resource("", "v1", "events"), e)
	}
}

// createNamespace makes a namespace, unless it is there.
func (c *cluster) createNamespace(t *testing.T, name string) {
	t.Helper()
	if _, isMade := c.namespaces[name]; isMade || name == "default" {
		return
	}

	c.namespaces[name] = true
	c.create(t, resource("", "v1", "namespaces"), map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	})
}

// storeComponents makes a pod of a component of KubeVirt for each of its logs.
func (c *cluster) storeComponents(t *testing.T, th *thread, logs map[string]string) {
	t.Helper()
	for component, log := range logs {
		if component == "compute" {
			continue
		}

		c.createNamespace(t, "kubevirt")
		name := component + "-" + th.name
		c.create(t, resource("", "v1", "pods"), map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{
				"name": name, "namespace": "kubevirt",
				"labels": map[string]any{"kubevirt.io": component},
			},
			"spec": map[string]any{
				"nodeName":   node,
				"containers": []any{map[string]any{"name": component, "image": "image"}},
			},
			"status": map[string]any{"phase": "Running", "containerStatuses": []any{
				map[string]any{
					"name": component, "image": "image", "imageID": "image", "ready": true,
					"restartCount": 0,
					"state":        map[string]any{"running": map[string]any{"startedAt": nil}},
				},
			}},
		})
		c.kubelet.logs.Store("kubevirt/"+name+"/"+component, log)
	}
}

// Lines of kubectl get events, of today and of 2018, of kubectl describe, and of a condition there.
var (
	rowOfEvent = regexp.MustCompile(`^(?:\S+\s+)?\d\w*(?: \(x\d+ over \w+\))?` +
		`\s+(Normal|Warning)\s+(\S+)\s+([a-z]+)/(\S+)\s+(.*)$`)
	oldRow = regexp.MustCompile(`^\d\w*\s+\d\w*\s+\d+\s+(\S+)\s+(\w+)\s+(Normal|Warning)` +
		`\s+(\S+)\s+\S+\s+(.*)$`)
	described = regexp.MustCompile(`^\s+(Normal|Warning)\s+(\S+)\s+\d\w*(?: \(x\d+ over \w+\))?` +
		`\s+(\S+?)(?:, \S+)?\s+(.*)$`)
	conditionOf = regexp.MustCompile(`^    Message:\s+(.*)$`)
	quoted      = regexp.MustCompile(`^(?:(?:Warning +)(\S+) +\S+ +|(?:Reason|Message): +)?(\S.*)$`)
	heading     = regexp.MustCompile(
		`^(?:LAST SEEN|NAMESPACE|Events:|Status:|\w+:$|(?:Name|Namespace|Priority|Node|Labels):)`)
)

// podSources are the components whose events are about pods.
var podSources = []string{"kubelet", "default-scheduler", "multus"}

// parts returns what the bundle has: events, conditions of the VMI, and logs by container. It finds
// the pod's name.
func (th *thread) parts() (events []object, conditions []any, logs map[string]string) {
	conditions = []any{}
	logs = map[string]string{}
	base := "virt-launcher-" + th.stored + "-"
	th.pod = base[:min(len(base), 58)] + "x7k2p" // k8s.io/apiserver pkg/storage/names/generate.go
	for _, f := range th.files {
		text, component := string(f.Data), strings.TrimSuffix(f.Name, ".log")
		isText := strings.HasPrefix(f.Name, "events") || strings.HasPrefix(f.Name, "describe")
		switch {
		case strings.HasPrefix(f.Name, "guest/") || !isCollected(f.Name):
		case isText:
			for line := range strings.Lines(text) {
				line = strings.TrimRight(line, "\n")
				if e := th.event(line); e != nil {
					events = append(events, e)
				} else if m := conditionOf.FindStringSubmatch(line); m != nil {
					conditions = append(conditions, failedSync(m[1]))
				}
			}

		case component == "virt-handler" || component == "virt-controller":
			logs[component] = text
		default:
			logs["compute"] += text
		}
	}

	return events, conditions, logs
}

// object is an object of the API server, or a part of one.
type object = map[string]any

// collected are the files of bundles that have what collect reads: events, objects, and the logs of
// virt-launcher, libvirt and QEMU, which compute prints, and of KubeVirt.
var collected = regexp.MustCompile(`^(?:guest/|(?:events|describe-\w+)\.txt$|` +
	`(?:compute|qemu|task|start|virt-handler|virt-controller)\.log$|virsh\.txt$)`)

func isCollected(name string) bool { return collected.MatchString(name) }

// beside returns the flags for what a user has to add to an archive, such as the node's kernel log.
func (th thread) beside(dir string) (flags []string) {
	for _, f := range th.files {
		if !isCollected(f.Name) {
			flags = append(flags, "-f", filepath.Join(dir, filepath.FromSlash(f.Name)))
		}
	}
	return flags
}

// failedSync is the condition with which virt-handler says that a start failed.
func failedSync(message string) map[string]any {
	return map[string]any{
		"type": "Synchronized", "status": "False", "message": message,
		"reason": "Synchronizing with the Domain failed.",
	}
}

// event returns the event that a line prints; nil for any other line.
func (th *thread) event(line string) map[string]any {
	kind, name, eventType, reason, message := "", "", "", "", ""
	if m := rowOfEvent.FindStringSubmatch(line); m != nil {
		eventType, reason, kind, name, message = m[1], m[2], m[3], m[4], m[5]
	} else if m := oldRow.FindStringSubmatch(line); m != nil {
		kind, eventType, reason, message = m[2], m[3], m[4], m[5]
	} else if m := described.FindStringSubmatch(line); m != nil {
		eventType, reason, message = m[1], m[2], m[4]
		if slices.Contains(podSources, m[3]) {
			kind = "pod"
		}
	} else if m := quoted.FindStringSubmatch(line); m != nil && !heading.MatchString(line) {
		// a thread often has the message alone
		kind, eventType, reason, message = "pod", "Warning", cmp.Or(m[1], "Unknown"), m[2]
	} else {
		return nil
	}

	involved := map[string]any{
		"kind": "VirtualMachineInstance", "namespace": th.namespace, "name": th.stored,
	}
	if kind == "pod" {
		if strings.HasPrefix(name, "virt-launcher-") {
			th.pod = name
		}
		involved = map[string]any{"kind": "Pod", "namespace": th.namespace, "name": th.pod}
	}

	now := time.Now().UTC().Format(time.RFC3339)
	return map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"type": eventType, "reason": reason, "message": message,
		"involvedObject": involved, "firstTimestamp": now, "lastTimestamp": now,
		"source": map[string]any{"component": "test"},
	}
}
