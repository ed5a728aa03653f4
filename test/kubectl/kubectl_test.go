package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cluster is a cluster with its node and the programs under test.
type cluster struct {
	apiServer
	kubelet  *kubelet
	programs string // directory
	launcher *container
}

// TestPlugin starts a cluster, which takes seconds, for all that follows.
func TestPlugin(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mount namespaces take root")
	}
	c := cluster{programs: t.TempDir(), apiServer: startAPIServer(t)}
	command(t, "go", "-C", "../..", "build", "-o", c.programs+"/", "./cmd/kubectl-hostdev", "./cmd/hook-sidecar")
	hooked := newContainer(t, c.programs)
	c.launcher = newContainer(t, c.programs)
	started := c.startDomains(t, hooked)
	c.apiServer.wait(t)
	t.Run("no KubeVirt", c.testNoKubeVirt)
	c.createDefinitions(t)
	c.createRights(t)
	c.createNode(t)
	if err := started(); err != nil {
		t.Fatal(err)
	}
	domain := c.createVMs(t, hooked)
	t.Run("first use", func(t *testing.T) { c.testFirstUse(t, domain) })
	t.Run("formats", c.testFormats)
	t.Run("a VM with the hook", c.testHooked)
	t.Run("guest", c.testGuest)
	t.Run("a VM without devices", c.testPlain)
	t.Run("doctor", c.testDoctor)
	t.Run("snapshot", c.testSnapshot)
	t.Run("table", c.testTable)
	t.Run("completion", c.testCompletion)
	t.Run("rights", c.testRights)
	t.Run("SPDY", c.testSPDY)
	t.Run("migrating", c.testMigrating)
	t.Run("VMs that cannot be read", c.testUnreadable)
	t.Run("containers that cannot be trusted", c.testHostile)
	t.Run("names that a terminal would obey", c.testEscapes)
	t.Run("policy", c.testPolicy)
	t.Run("nothing is changed", func(t *testing.T) { c.testUnchanged(t, domain) })
}

const node = "gpu-node-1"

func (c *cluster) createNode(t *testing.T) {
	t.Helper()
	c.kubelet = newKubelet(t)
	c.create(t, resource("", "v1", "nodes"), map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node},
		"status": map[string]any{
			"addresses":       []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}},
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": c.kubelet.port()}},
		},
	})
}

// startDomains begins to start the domains: dgx as KubeVirt makes it, plain without
// devices, and hooked with what this hook makes of it. It returns what waits for them.
func (c *cluster) startDomains(t *testing.T, hooked *container) (wait func() error) {
	t.Helper()
	domain, err := os.ReadFile("testdata/dgx.xml")
	if err != nil {
		t.Fatal(err)
	}
	placed := command(t, filepath.Join(c.programs, "hook-sidecar"), "mutate", "--domain", "testdata/dgx.xml", "--sysfs", hostFile)
	hooked.wait(t)
	c.launcher.wait(t)
	var group errgroup.Group
	group.Go(func() error {
		return errors.Join(c.launcher.start(domain), c.launcher.start(withoutDevices(domain, "default_plain")), c.launcher.start(withoutDevices(domain, "default_moving")))
	})
	group.Go(func() error {
		return hooked.start(bytes.Replace(placed, []byte("default_dgx"), []byte("default_hooked"), 1))
	})
	return group.Wait
}

// createVMs makes the VMIs of these domains and their pods. It returns the domain of dgx
// as libvirt runs it.
func (c *cluster) createVMs(t *testing.T, hooked *container) []byte {
	t.Helper()
	c.run(t, "dgx", in(c.launcher, systemPath), nil)
	c.run(t, "plain", in(c.launcher, systemPath), func(vmi map[string]any) {
		devices := vmi["spec"].(map[string]any)["domain"].(map[string]any)["devices"].(map[string]any)
		delete(devices, "gpus")
		delete(devices, "interfaces")
		delete(vmi["spec"].(map[string]any), "networks")
		vmi["status"].(map[string]any)["runtimeUser"] = 0
	})
	c.run(t, "hooked", in(hooked, systemPath), nil, "other-0", "hook-sidecar-0")
	c.kubelet.add("virt-launcher-hooked/hook-sidecar-0", in(hooked, "/run")) // where the image's PATH has it
	running, err := c.launcher.output("virsh", "-q", "-c", "qemu:///system", "dumpxml", "default_dgx")
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// in runs commands in a container.
func in(c *container, path string) process {
	return func(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) error {
		return c.exec(ctx, path, words, in, out, errs)
	}
}

// run makes a VMI and its pod on the node, with what runs in compute.
func (c *cluster) run(t *testing.T, name string, compute process, change func(map[string]any), sidecars ...string) *unstructured.Unstructured {
	t.Helper()
	if change == nil {
		change = func(map[string]any) {}
	}
	stored := c.create(t, resource("kubevirt.io", "v1", "virtualmachineinstances"), vmi(t, name, change))
	c.create(t, resource("", "v1", "pods"), pod(stored, "virt-launcher-"+name, node, "Running", sidecars...))
	c.kubelet.add("virt-launcher-"+name+"/compute", compute)
	return stored
}

func (c *cluster) testNoKubeVirt(t *testing.T) {
	c.as(t, "admin", "explain", "dgx").fails(t, "error: read VMI default/dgx: the cluster has no KubeVirt")
	c.as(t, "admin", "explain", "-A").fails(t, "error: list VMIs: the cluster has no KubeVirt")
}

// One command, and the picture is that of hook-sidecar explain with the same inputs.
func (c *cluster) testFirstUse(t *testing.T, domain []byte) {
	out := c.succeeds(t, "explain", "dgx")
	head, picture, _ := strings.Cut(out, "\n\n")
	same(t, "the beginning", head, "0 of 120 pairs as on the host; with layout root 112, mirror 120\n"+
		"to do: add the hook to the VM (docs/install.md) and restart it")
	subject, picture, _ := strings.Cut(picture, "\n")
	if !strings.HasPrefix(subject, "VM default/dgx | node gpu-node-1 | pod virt-launcher-dgx | kubectl-hostdev ") {
		t.Errorf("the subject is %q", subject)
	}
	_, want, _ := strings.Cut(c.onFiles(t, "explain", "--as-is"), "\n")
	same(t, "the picture", strings.TrimPrefix(picture, "  kubectl-hostdev (devel)\n"), want)
	same(t, "vm/dgx", c.succeeds(t, "explain", "vm/dgx"), out)
	if !bytes.Contains(domain, []byte("<domain type='qemu' id=")) {
		t.Errorf("the domain does not run: %.80s", domain)
	}
	c.as(t, "viewer", "explain", "dgx", "-n", "other").fails(t, "namespace other")
}

func (c *cluster) testFormats(t *testing.T) {
	same(t, "JSON", c.succeeds(t, "explain", "dgx", "--format", "json"), c.onFiles(t, "explain", "--as-is", "--format", "json"))
	same(t, "NCCL's file", c.succeeds(t, "explain", "dgx", "--format", "nccl", "--layout", "mirror"),
		c.onFiles(t, "explain", "--format", "nccl", "--layout", "mirror"))
	same(t, "svg", withoutSubject(c.succeeds(t, "explain", "dgx", "--format", "svg", "--layout", "root")),
		withoutSubject(c.onFiles(t, "explain", "--format", "svg", "--layout", "root")))
	file := filepath.Join(t.TempDir(), "dgx.svg")
	if out := c.succeeds(t, "explain", "dgx", "-o", file); out != "" {
		t.Errorf("output %q", out)
	}
	svg, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(svg, []byte("<svg")) || !bytes.Contains(svg, []byte("gpu-node-1")) {
		t.Errorf("%v: %.200s", err, svg)
	}
	c.as(t, "viewer", "explain", "dgx", "--format", "png").fails(t, `invalid --format "png": must be one of text, json, svg, nccl`)
	c.as(t, "viewer", "explain", "dgx", "--layout", "flat").fails(t, "flat", "must be one of")
	c.as(t, "viewer", "explain", "dgx", "--timeout", "0").fails(t, "invalid --timeout 0s")
	c.as(t, "viewer", "explain", "pod/dgx").fails(t, `invalid VM "pod/dgx"`)
	c.as(t, "viewer", "explain", "dgx", "--server", "https://127.0.0.1:1").fails(t, "read VMI default/dgx", "connection refused", "hint: name the cluster")
	c.as(t, "viewer", "explain", "dgx", "--context", "none").fails(t, "context was not found for specified context: none", "hint: pass one with --kubeconfig")
	c.as(t, "viewer", "doctor").fails(t, "0 arguments, want the name of a VM")
}

// withoutSubject removes the line that names node and file.
func withoutSubject(text string) string {
	return regexp.MustCompile(`(?m)^.*(gpu-node-1|x86-2n8g).*$`).ReplaceAllString(text, "")
}

func (c *cluster) testHooked(t *testing.T) {
	head, _, _ := strings.Cut(c.succeeds(t, "explain", "hooked"), "\n\n")
	same(t, "the beginning", head, "112 of 120 pairs as on the host, in a tree of layout root; with layout mirror 120\n"+
		"to do: nothing, or annotate the VM with hostdev.vm.kubevirt.io/layout: mirror, which --layout mirror shows")
	if !slices.Contains(c.kubelet.commands, "hook-sidecar-0: hook-sidecar") {
		t.Errorf("the hook in the pod was not asked: %q", c.kubelet.commands)
	}
}

// Its libvirt is that of a launcher which runs as root.
func (c *cluster) testPlain(t *testing.T) {
	head, _, _ := strings.Cut(c.succeeds(t, "explain", "plain"), "\n\n")
	same(t, "the beginning", head, "the domain passes no PCI or mediated device through")
}

func (c *cluster) testDoctor(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		r := c.as(t, "viewer", "doctor", "dgx", "--format", format)
		if format == "text" {
			var head string
			head, r.out, _ = strings.Cut(r.out, "\n\n")
			same(t, "the beginning", strings.SplitAfter(head, "\n")[0], "0 of 120 pairs as on the host; with layout root 112, mirror 120\n")
		}
		same(t, "doctor", r.out, c.onFiles(t, "doctor", "--socket-dir", "", "--cgroup", "", "--format", format))
		if failures := strings.Contains(r.out, "\n0 FAIL"); format == "text" && (r.code == 0) != failures {
			t.Errorf("exit status %d after\n%s", r.code, r.out)
		}
	}
}

func (c *cluster) testSnapshot(t *testing.T) {
	_, want, _ := strings.Cut(string(command(t, filepath.Join(c.programs, "hook-sidecar"), "snapshot", "--sysfs", hostFile)), "\n-- ")
	for _, of := range []string{"dgx", "hooked", "node/" + node} {
		header, got, _ := strings.Cut(c.succeeds(t, "snapshot", of), "\n-- ")
		same(t, "the snapshot of "+of, got, want)
		if strings.Contains(header, node) || strings.Contains(header, "dgx") {
			t.Errorf("the header names the node or the VM: %s", header)
		}
	}
	c.as(t, "admin", "snapshot", "node/other").fails(t, `no VM that you may see runs on node "other"`, "hook-sidecar snapshot")
}

func (c *cluster) testTable(t *testing.T) {
	want := regexp.MustCompile(`^NAMESPACE +VM +NODE +DEVICES +PAIRS AS ON HOST +LAYOUT +WORST FINDING
default +dgx +gpu-node-1 +16 +0 of 120 +- +(FAIL|WARN) \S+: .*
default +hooked +gpu-node-1 +16 +112 of 120 +root +.*
$`)
	if out := c.as(t, "admin", "explain", "-A"); !want.MatchString(out.out) {
		t.Errorf("%s\n%s", out.err, out.out)
	}
	var table struct {
		SchemaVersion int
		VMs           []struct {
			Name, Layout   string
			Devices, Alike int
		}
	}
	if err := json.Unmarshal([]byte(c.succeeds(t, "explain", "--format", "json")), &table); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(table); got != "{1 [{dgx  16 0} {hooked root 16 112}]}" {
		t.Errorf("the table is %s", got)
	}
	c.as(t, "viewer", "explain", "-A").fails(t, "you may not list virtualmachineinstances in all namespaces",
		`{apiGroups: ["kubevirt.io"], resources: ["virtualmachineinstances"], verbs: ["list"]}`)
	c.as(t, "viewer", "explain", "-A", "dgx").fails(t, "-A is a table of all VMs, and a VM is given")
}

func (c *cluster) testCompletion(t *testing.T) {
	for want, words := range map[string][]string{
		"dgx\nhooked\n:4\n":        {"explain", ""},
		"hooked\n:4\n":             {"doctor", "h"},
		"numa\nroot\nmirror\n:4\n": {"explain", "dgx", "--layout", ""},
	} {
		if r := c.as(t, "viewer", append([]string{"__complete"}, words...)...); !strings.HasPrefix(r.out, want) {
			t.Errorf("%q is completed by %q, want %q", words, r.out, want)
		}
	}
	if out := c.succeeds(t, "completion"); out != "#!/bin/sh\nexec kubectl hostdev __complete \"$@\"\n" {
		t.Errorf("completion prints %q", out)
	}
}

// Each missing right is named with the rule that gives it, and the manifest has each of
// these rules: viewer has it.
func (c *cluster) testRights(t *testing.T) {
	for user, want := range map[string]string{
		"nobody": `you may not get virtualmachineinstances in namespace default; manifests/kubectl/clusterrole.yaml allows it, by the rule {apiGroups: ["kubevirt.io"], resources: ["virtualmachineinstances"], verbs: ["get"]}`,
		"vmis":   `you may not list pods in namespace default; manifests/kubectl/clusterrole.yaml allows it, by the rule {apiGroups: [""], resources: ["pods"], verbs: ["list"]}`,
		"pods":   `you may not create pods/exec in namespace default; manifests/kubectl/clusterrole.yaml allows it, by the rule {apiGroups: [""], resources: ["pods/exec"], verbs: ["create"]}`,
	} {
		c.as(t, user, "explain", "dgx").fails(t, want)
	}
}

// Without the right to get pods/exec a WebSocket is refused, and SPDY is spoken.
func (c *cluster) testSPDY(t *testing.T) {
	c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: exec}
rules: [{apiGroups: [""], resources: [pods/exec], verbs: [create]}]
`)))
	c.create(t, resource("rbac.authorization.k8s.io", "v1", "rolebindings"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: exec, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: exec}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: pods}]
`)))
	r := c.as(t, "pods", "explain", "dgx")
	if same(t, "over SPDY", r.out, c.succeeds(t, "explain", "dgx")); r.code != 0 {
		t.Errorf("exit status %d: %s", r.code, r.err)
	}
}

// While a VM migrates it has a pod on each node, and one of an earlier migration stays.
func (c *cluster) testMigrating(t *testing.T) {
	moving := c.run(t, "moving", in(c.launcher, systemPath), func(vmi map[string]any) {
		vmi["status"].(map[string]any)["migrationState"] = map[string]any{"sourceNode": node, "targetNode": "gpu-node-2"}
	})
	c.create(t, resource("", "v1", "pods"), pod(moving, "virt-launcher-moving-target", "gpu-node-2", "Running"))
	c.create(t, resource("", "v1", "pods"), pod(moving, "virt-launcher-moving-before", node, "Succeeded"))
	r := c.as(t, "viewer", "explain", "moving")
	same(t, "the text", strings.SplitAfter(r.out, "\n")[0], "the domain passes no PCI or mediated device through\n")
	same(t, "the warning", r.err, "warning: VM default/moving is migrating to node gpu-node-2; this is where it still runs, gpu-node-1\n")
	if !strings.Contains(r.out, "pod virt-launcher-moving |") {
		t.Errorf("another pod was read:\n%s", r.out)
	}
}

func (c *cluster) testUnreadable(t *testing.T) {
	say := func(text string, code int) process {
		return func(_ context.Context, _ []string, _ io.Reader, _, errs io.Writer) error {
			fmt.Fprint(errs, text)
			return exitStatus(code)
		}
	}
	for _, test := range []struct {
		name    string
		compute process
		status  map[string]any
		want    []string
	}{
		{"waiting", nil, map[string]any{"phase": "Scheduling"}, []string{`VM default/waiting does not run: its phase is "Scheduling"`, "kubectl describe vmi waiting"}},
		{"ended", nil, map[string]any{"phase": "Succeeded"}, []string{`its phase is "Succeeded"`}},
		{"elsewhere", nil, map[string]any{"nodeName": "gone"}, []string{`has no running pod on its node "gone"; it has virt-launcher-elsewhere (Running on "gpu-node-1")`}},
		{"no-virsh", in(c.launcher, "/none"), nil, []string{"run virsh in container compute of pod default/virt-launcher-no-virsh: exit status 127", "the pod's image has no virsh"}},
		{"no-virsh-runc", func(context.Context, []string, io.Reader, io.Writer, io.Writer) error {
			return errors.New(`OCI runtime exec failed: exec: "virsh": executable file not found in $PATH`)
		}, nil, []string{"executable file not found", "the pod's image has no virsh"}},
		{"no-domain", in(c.launcher, systemPath), nil, []string{"exit status 1", "failed to get domain 'default_no-domain'"}},
		{"no-shell", func(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) error {
			if words[0] == "virsh" {
				return c.launcher.exec(ctx, systemPath, append(words[:len(words)-1:len(words)-1], "default_dgx"), in, out, errs)
			}
			return exitStatus(127)
		}, nil, []string{"run sh in container compute", "take a snapshot on its node"}},
		{"refused", say("error: failed to connect to the hypervisor\nerror: authentication failed", 1), nil, []string{"exit status 1: error: failed to connect to the hypervisor error: authentication failed"}},
	} {
		c.run(t, test.name, test.compute, func(vmi map[string]any) {
			for key, value := range test.status {
				vmi["status"].(map[string]any)[key] = value
			}
		})
		c.as(t, "viewer", "explain", test.name).fails(t, test.want...)
	}
	c.as(t, "viewer", "explain", "none").fails(t, "there is no VM default/none", "name its namespace with -n")
	c.create(t, resource("kubevirt.io", "v1", "virtualmachines"), map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]any{"name": "stopped", "namespace": "default"},
		"spec": map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}},
	})
	c.as(t, "viewer", "explain", "stopped").fails(t, "VM default/stopped is stopped", "virtctl start stopped -n default")
	c.as(t, "vmis", "explain", "stopped").fails(t, "VM default/stopped does not run, or there is none")
	c.kubelet.refused = true
	c.as(t, "viewer", "explain", "dgx").fails(t, "run virsh in container compute of pod default/virt-launcher-dgx")
	c.kubelet.refused = false
	// In a table their errors are in their rows.
	out := c.succeeds(t, "explain")
	for _, row := range []string{`no-virsh +gpu-node-1 +\? +\? +- +error: run virsh`, `hooked +gpu-node-1 +16 +112 of 120`} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no row %s in\n%s", row, out)
		}
	}
}

// testUnchanged is the last: the VM and its objects are as they were.
func (c *cluster) testUnchanged(t *testing.T, before []byte) {
	after, err := c.launcher.output("virsh", "-q", "-c", "qemu:///system", "dumpxml", "default_dgx")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the domain", string(after), string(before))
	object, err := c.client.Resource(resource("kubevirt.io", "v1", "virtualmachineinstances")).Namespace("default").Get(t.Context(), "dgx", getOptions)
	if err != nil || object.GetGeneration() != 1 || len(object.GetManagedFields()) != 1 {
		t.Errorf("the VMI was written to: %v, generation %d, %d writers", err, object.GetGeneration(), len(object.GetManagedFields()))
	}
}
