package kubectl

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// cluster is a cluster with its node and the programs under test.
type cluster struct {
	apiServer
	kubelet  *kubelet
	programs string // directory
	launcher *container

	namespaces map[string]bool // that were made
}

// TestPlugin starts a cluster, which takes seconds, for all that follows.
func TestPlugin(t *testing.T) {
	checkMachine(t)
	c := cluster{
		programs: t.TempDir(), apiServer: startAPIServer(t), namespaces: map[string]bool{},
	}
	command(t, "go", "-C", "../..", "build", "-buildvcs=false", "-o", c.programs+"/",
		"./cmd/kubectl-hostdev", "./cmd/hook-sidecar")
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
	t.Run("a VM with the hook", c.testHooked)
	t.Run("guest", c.testGuest)
	t.Run("snapshot", c.testSnapshot)
	t.Run("collect", c.testCollect)
	t.Run("threads", c.testThreads)
	t.Run("VMs of all namespaces", c.testAll)
	t.Run("rights", c.testRights)
	t.Run("SPDY", c.testSPDY)
	t.Run("VMs that cannot be read", c.testUnreadable)
	c.createKubeVirt(t)
	t.Run("operate", c.testOperate)
	t.Run("policy", c.testPolicy)
	t.Run("overlays", c.testOverlays)
	t.Run("fit", c.testFit)
	t.Run("nothing is changed", func(t *testing.T) { c.testUnchanged(t, domain) })
}

// checkMachine fails before anything is built where the machine lacks what the test takes.
func checkMachine(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containers take root: run make kubectl, or go test -exec 'sudo -E'")
	}

	var missing []string
	for _, program := range []string{
		"etcd", "openssl", "gcc", "unshare", "nsenter", "virsh", "/usr/sbin/libvirtd",
		"/usr/bin/qemu-system-x86_64", "qemu-ga",
	} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}

	if missing != nil {
		t.Fatalf("no program %s: .ci/run packages installs Debian's etcd-server, openssl, gcc, "+
			"libvirt, QEMU and qemu-guest-agent", strings.Join(missing, ", "))
	}
}

const node = "gpu-node-1"

func (c *cluster) createNode(t *testing.T) {
	t.Helper()
	c.kubelet = newKubelet(t)
	c.create(t, resource("", "v1", "nodes"), map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node},
		"status": map[string]any{
			"addresses": []any{map[string]any{"type": "InternalIP", "address": "127.0.0.1"}},
			"daemonEndpoints": map[string]any{
				"kubeletEndpoint": map[string]any{"Port": c.kubelet.port()},
			},
		},
	})
}

// startDomains begins to start the domains: dgx as KubeVirt makes it, and hooked with what
// this hook makes of it. It returns a function that waits for them.
func (c *cluster) startDomains(t *testing.T, hooked *container) (wait func() error) {
	t.Helper()
	domain, err := os.ReadFile("testdata/dgx.xml")
	if err != nil {
		t.Fatal(err)
	}

	placed := command(t, filepath.Join(c.programs, "hook-sidecar"), "mutate", "--domain",
		"testdata/dgx.xml", "--sysfs", hostFile)
	hooked.wait(t)
	c.launcher.wait(t)
	var group errgroup.Group
	group.Go(func() error { return c.launcher.start(domain) })
	group.Go(func() error {
		return hooked.start(bytes.Replace(placed, []byte("default_dgx"), []byte("default_hooked"),
			1))
	})

	return group.Wait
}

// createVMs makes the VMIs of these domains and their pods. The libvirt of hooked is that
// of a launcher which runs as root. It returns the domain of dgx as libvirt runs it.
func (c *cluster) createVMs(t *testing.T, hooked *container) []byte {
	t.Helper()
	c.run(t, "dgx", in(c.launcher, systemPath), nil)
	c.run(t, "hooked", in(hooked, systemPath), map[string]any{
		"runtimeUser": 0,
	}, "other-0", "hook-sidecar-0")

	// where the image's PATH has it
	c.kubelet.add("virt-launcher-hooked-x7k2p/hook-sidecar-0", in(hooked, "/run"))
	return c.runningDomain(t)
}

// runningDomain returns the domain of dgx as libvirt runs it.
func (c *cluster) runningDomain(t *testing.T) []byte {
	t.Helper()
	domain, err := c.launcher.output("virsh", "-q", "-c", "qemu:///system", "dumpxml",
		"default_dgx")
	if err != nil {
		t.Fatal(err)
	}

	return domain
}

// in runs commands in a container.
func in(c *container, path string) process {
	return func(ctx context.Context, words []string, in io.Reader, out, errs io.Writer) error {
		return c.exec(ctx, path, words, in, out, errs)
	}
}

// run makes a VMI and its pod on the node, with what runs in compute.
func (c *cluster) run(
	t *testing.T, name string, compute process, status map[string]any, sidecars ...string,
) {
	t.Helper()
	stored := c.create(t, resource("kubevirt.io", "v1", "virtualmachineinstances"),
		vmi(t, name, status))
	c.create(t, resource("", "v1", "pods"), pod(stored, sidecars...))
	c.kubelet.add("virt-launcher-"+name+"-x7k2p/compute", compute)
}

func (c *cluster) testNoKubeVirt(t *testing.T) {
	c.as(t, "admin", "explain", "dgx").fails(t,
		"error: read VMI default/dgx: the cluster has no KubeVirt")
	c.as(t, "admin", "explain", "-A").fails(t, "error: list VMIs: the cluster has no KubeVirt")
}

// One command, and the picture is that of hook-sidecar explain with the same inputs.
func (c *cluster) testFirstUse(t *testing.T, domain []byte) {
	head, picture, _ := strings.Cut(c.succeeds(t, "explain", "dgx"), "\n\n")
	same(t, "the beginning", head,
		"0 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; 0 of 120 pairs of devices as "+
			"on the host; with layout mirror 8 GPUs direct, 120 pairs\n"+
			"to do: add the hook to the VM (docs/install.md) and restart it")

	subject, picture, _ := strings.Cut(picture, "\n")
	if !strings.HasPrefix(subject,
		"VM default/dgx | node gpu-node-1 | pod virt-launcher-dgx-x7k2p | kubectl-hostdev ") {
		t.Errorf("the subject is %q", subject)
	}

	_, want, _ := strings.Cut(c.onFiles(t, "explain", "--as-is"),
		"; 0 of 120 pairs of devices as on the host\n")
	same(t, "the picture", strings.TrimPrefix(picture, "  kubectl-hostdev (devel)\n"), want)
	if !bytes.Contains(domain, []byte("<domain type='qemu' id=")) {
		t.Errorf("the domain does not run: %.80s", domain)
	}

	c.as(t, "viewer", "explain", "dgx", "-n", "other").fails(t, "namespace other")
}

func (c *cluster) testHooked(t *testing.T) {
	head, _, _ := strings.Cut(c.succeeds(t, "explain", "hooked"), "\n\n")
	same(t, "the beginning", head,
		"8 of 8 GPUs: NCCL, UCX, DRA, P2PDMA, hwloc as on the host; the host's paths: ready 0, "+
			"through the root complex 8; the tree is of layout mirror\n"+
			"to do: nothing: no layout shows more of the host")
}

// capabilities matches what a snapshot has of the part of a configuration space that only root reads,
// which nothing in a pod may, and arguments of the kernel, which are this machine's.
var capabilities = regexp.MustCompile(`-- \S+/extended_capabilities --\n` +
	`(acs .*\n)?(ats\n)?(atomics .*\n)?|-- kernel/arguments --\n.*\n`)

// The script in a container's shell and the hook in its container print the host that the
// containers have.
func (c *cluster) testSnapshot(t *testing.T) {
	readable := func(snapshot string) string {
		_, files, _ := strings.Cut(snapshot, "\n-- ")
		return capabilities.ReplaceAllString(files, "")
	}

	want := readable(string(command(t, filepath.Join(c.programs, "hook-sidecar"), "snapshot",
		"--sysfs", hostFile)))
	for _, what := range []string{"dgx", "hooked", "node/" + node} {
		same(t, "the snapshot of "+what, readable(c.succeeds(t, "snapshot", what)), want)
	}
}

// One list has the VMs of all namespaces, for a user who may list them, in the order in which
// they are read.
func (c *cluster) testAll(t *testing.T) {
	out := c.as(t, "admin", "explain", "-A")
	for _, row := range []string{
		`(?m)^default +dgx +gpu-node-1 +16 +0 of 8 +0 of 120 `,
		`(?m)^default +hooked +gpu-node-1 +16 +8 of 8 +120 of 120 `,
	} {
		if !regexp.MustCompile(row).MatchString(out.out) {
			t.Errorf("no row %s\n%s\n%s", row, out.err, out.out)
		}
	}

	c.as(t, "viewer", "explain", "-A").fails(t,
		"you may not list virtualmachineinstances in all namespaces")
}

// What the API server, the kubelet, a shell and libvirt answer where there is no VM, no
// right, no program or no domain.
func (c *cluster) testUnreadable(t *testing.T) {
	c.as(t, "viewer", "explain", "none").fails(t, "there is no VM default/none")
	c.create(t, resource("kubevirt.io", "v1", "virtualmachines"), map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{"name": "stopped", "namespace": "default"},
		"spec": map[string]any{
			"runStrategy": "Halted",
			"template": map[string]any{
				"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}},
			},
		},
	})

	c.as(t, "viewer", "explain", "stopped").fails(t, "VM default/stopped has no VMI: it is stopped")
	c.as(t, "vmis", "explain", "stopped").fails(t,
		"VM default/stopped is not running or does not exist")
	c.run(t, "no-virsh", in(c.launcher, "/none"), nil)
	c.as(t, "viewer", "explain", "no-virsh").fails(t, "exit status 127",
		"the pod's image has no virsh")
	c.run(t, "no-domain", in(c.launcher, systemPath), nil)
	c.as(t, "viewer", "explain", "no-domain").fails(t, "exit status 1",
		"failed to get domain 'default_no-domain'")
	c.kubelet.refused = true
	c.as(t, "viewer", "explain", "dgx").fails(t,
		"run virsh in container compute of pod default/virt-launcher-dgx-x7k2p")
	c.kubelet.refused = false
}

// testUnchanged runs last: the VM and its objects are as they were.
func (c *cluster) testUnchanged(t *testing.T, before []byte) {
	same(t, "the domain", string(c.runningDomain(t)), string(before))
	if object := c.storedVMI(t); object.GetGeneration() != 1 ||
		len(object.GetManagedFields()) != 1 {
		t.Errorf("the VMI was written to: generation %d, %d writers", object.GetGeneration(),
			len(object.GetManagedFields()))
	}
}
