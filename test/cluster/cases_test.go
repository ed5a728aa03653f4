//go:build linux && lane

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hook-sidecar/pkg/tools/cluster/why"
	"hook-sidecar/test/expect"
)

// TestCluster brings a cluster up for all that follows. The first cases run beside each
// other.
func TestCluster(t *testing.T) {
	c := start(t)
	p := readPage(t, c)
	p.run(t, "Image and gates", 1) // the gate Sidecar, for all
	t.Run("start", func(t *testing.T) {
		for _, start := range []struct {
			name string
			run  func(*testing.T)
		}{ // those that take longest first
			{"killed", c.testKilled}, {"numa", c.testNUMA}, {"shifted", c.testShifted},
			{"wrong arguments", c.testWrongArguments},
			{"shim", c.testShim}, {"strict", c.testStrict}, {"no image", c.testNoImage},
			{"no node", c.testNoNode},
		} {
			t.Run(start.name, func(t *testing.T) {
				t.Parallel()
				start.run(t)
			})
		}
	})

	t.Run("life", c.testLife)
	t.Run("install.md", p.testInstall)
	t.Logf("%d boots of the emulated node were lost, %d VMs started again", c.lost, c.again.Load())
}

// testNUMA: dedicated CPUs of both NUMA nodes, huge pages, the node's cells in the guest,
// each kind of device; and the sidecar has the limits that KubeVirt gives it then.
func (c *cluster) testNUMA(t *testing.T) {
	v := vm{
		name:      "numa",
		hooks:     [][]string{{"--layout", "numa"}},
		devices:   "nvme nvme nic vf mdev",
		dedicated: 3,
	}

	v.apply(t, c)
	v.check(t, c, "numa")
	v.isWell(t, c)
	const container = "hook-sidecar-0"
	for file, want := range map[string]string{
		"cpu.max": "20000 100000", "memory.max": fmt.Sprint(64_000_000 / 4096 * 4096),
	} {
		expect.Same(t, want, v.controlGroup(t, c, container, file),
			"%s of the sidecar (-want +got)", file)
	}

	if reasons := v.logs(c, container); strings.Count(reasons, `"msg":"domain planned"`) != 2 ||
		!strings.Contains(reasons, `"reason":"already-aligned"`) {
		t.Errorf("the hook's log does not have two calls, the second with all aligned:\n%s",
			reasons)
	}

	t.Logf("limits: peak %s bytes; %s; throttled:\n%s",
		v.controlGroup(t, c, container, "memory.peak"), v.times(t, c, container), v.controlGroup(t,
			c, container, "cpu.stat"))

	c.onNode(t, "for pid in "+
		strings.ReplaceAll(v.controlGroup(t, c, "compute", "cgroup.procs"), "\n", " ")+
		"; do [[ $(< /proc/$pid/comm) != virt-launcher ]] || kill -KILL $pid; done")

	c.await(t, "the end of the pod", func() bool {
		return v.pod(c, "{.items[0].status.phase}") == "Failed"
	})

	expect.Same(t, "0", v.exitCode(c, container),
		"exit status of the hook after virt-launcher was killed (-want +got)")
}

// controlGroup returns a file of a container's control group on the node.
func (v vm) controlGroup(t *testing.T, c *cluster, container, file string) string {
	t.Helper()
	id := v.pod(c, `{.items[0].status.containerStatuses[?(@.name=="`+container+`")].containerID}`)
	return c.onNode(t, "cat $(find /sys/fs/cgroup -type d -name '*"+
		strings.TrimPrefix(id, "containerd://")+"*' | head -n 1)/"+file)
}

// onNode runs a script on the emulated node.
func (c *cluster) onNode(t *testing.T, script string) string {
	t.Helper()
	return c.kubectl(t, nodeScript(script)...)
}

// nodeScript returns kubectl's arguments for that.
func nodeScript(script string) []string {
	return inHandler("nsenter", "-t", "1", "-m", "-n", "-p", "bash", "-c", script)
}

// inHandler returns kubectl's arguments for a command in virt-handler's container.
func inHandler(words ...string) []string {
	return append([]string{
		"exec", "-n", "kubevirt", "ds/virt-handler", "-c", "virt-handler", "--",
	}, words...)
}

// times returns when the hook listened and answered, after the start of its container.
func (v vm) times(t *testing.T, c *cluster, container string) string {
	t.Helper()
	began, err := time.Parse(time.RFC3339,
		v.pod(c, `{.items[0].status.containerStatuses[?(@.name=="`+container+
			`")].state.running.startedAt}`))

	expect.NoError(t, err)
	var all []string
	for line := range strings.Lines(v.logs(c, container)) {
		var entry struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &entry) == nil &&
			slices.Contains([]string{"listening", "domain planned"}, entry.Msg) {
			all = append(all, fmt.Sprint(entry.Msg, " after ", entry.Time.Sub(began)))
		}
	}

	return strings.Join(all, ", ")
}

// testStrict: a VM that strict refuses stays Scheduled, an event has the hook's sentence, why says
// so, and virt-handler asks again. The VM's condition keeps the first failure, which is the hook's
// or, where virt-launcher is slow to start, one before it (KubeVirt pkg/controller/conditions.go,
// CheckFailure).
func (c *cluster) testStrict(t *testing.T) {
	v := vm{
		name:    "strict-numa",
		hooks:   [][]string{{"--strict", "--layout=numa"}},
		devices: "nvme",
		never:   true,
	}

	v.apply(t, c)
	refusal := regexp.MustCompile(`SyncFailed .*strict: .*no-guest-numa`)
	var events string
	v.await(t, c, "event of strict", func() bool {
		events = v.output(c, "get", "events", "--field-selector", "involvedObject.name="+v.name)
		return refusal.MatchString(events)
	})

	c.await(t, "condition with the first failure", func() bool {
		message := v.output(c, "get", "vmi", v.name, "-o",
			`jsonpath={.status.conditions[?(@.type=="Synchronized")].message}`)
		return message != "" && strings.Contains(events, message)
	})

	c.await(t, "calls again", func() bool {
		return strings.Count(v.logs(c, "hook-sidecar-0"), "no-guest-numa") > 4
	})

	expect.Same(t, "Scheduled", v.phase(c), "phase (-want +got)")
	v.awaitWhy(t, c, "strict")
}

// awaitWhy waits until why names the cause, of the cluster and of an archive.
func (v vm) awaitWhy(t *testing.T, c *cluster, cause string) {
	t.Helper()
	isIn := func(causes []why.FoundCause) bool {
		return slices.ContainsFunc(causes, func(f why.FoundCause) bool { return f.Name == cause })
	}

	c.await(t, "the cause "+cause, func() bool {
		r, err := v.why(c, v.name)
		return err == nil && isIn(r.Causes)
	})

	r, err := v.why(c, "-f", v.archive(t, c))
	if expect.NoError(t, err); !isIn(r.Causes) {
		t.Errorf("why of an archive does not name %s: %+v", cause, r)
	}
}

// isWell: of a VM that runs, why names no cause and quotes no error, of the cluster and of an
// archive.
func (v vm) isWell(t *testing.T, c *cluster) {
	t.Helper()
	for _, words := range [][]string{{v.name}, {"-f", v.archive(t, c)}} {
		r, err := v.why(c, words...)
		expect.NoError(t, err)
		if errs := slices.DeleteFunc(r.Errors, isOfLateSync); !r.Runs() ||
			len(r.Causes)+len(errs) > 0 {
			t.Errorf("why %q of a VM that runs: %+v", words, r)
		}
	}
}

// isOfLateSync reports whether an error comes from a start that a slow node did not finish in
// virt-handler's 20 seconds (KubeVirt pkg/virt-handler/cmd-client/client.go, longTimeout). The VM
// runs, but virt-handler has removed the socket of the container with its kernel, which then ends
// (pkg/virt-handler/container-disk/mount.go, deleteMountTargetRecord).
func isOfLateSync(e why.Line) bool {
	return strings.Contains(e.Text, "kernel-boot.sock does not exist anymore")
}

// why returns what kubectl hostdev why says. Its exit status says whether a cause was found.
func (v vm) why(c *cluster, words ...string) (r why.Report, err error) {
	command := c.plugin(admin, append([]string{"why", "-o", "json"}, words...)...)
	var errs strings.Builder
	command.Stderr = &errs
	out, status := command.Output()
	if err = json.Unmarshal(out, &r); err != nil {
		err = fmt.Errorf("%s: %w: %w\n%s%s", command, status, err, out, errs.String())
	}

	return r, err
}

// archive returns the file of an archive of the VM.
func (v vm) archive(t *testing.T, c *cluster) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), v.name+".tar.gz")
	out, err := c.plugin(admin, "collect", v.name, "--output-file", file).CombinedOutput()
	if err != nil {
		t.Logf("collect %s: %v\n%s", v.name, err, out) // with what it could not read
	}

	return file
}

// exitCode returns the exit code of a container that has ended.
func (v vm) exitCode(c *cluster, container string) string {
	return v.pod(c, `{.items[0].status.containerStatuses[?(@.name=="`+container+
		`")].state.terminated.exitCode}`)
}

// testWrongArguments: a hook with arguments that it does not know says so, and the VM
// starts with its device where KubeVirt puts it.
func (c *cluster) testWrongArguments(t *testing.T) {
	v := vm{name: "wrong", hooks: [][]string{{"--no-such-flag"}}, devices: "nvme"}
	v.apply(t, c)
	for _, d := range v.boots(t, c).Devices {
		if d.ID == "1b36:0010" && strings.Count(d.Path, "/") != 2 {
			t.Errorf("the device is at %s, want a port of the root bus", d.Path)
		}
	}

	if log := v.logs(c, "hook-sidecar-0"); !strings.Contains(log, "no-such-flag") {
		t.Errorf("the log does not name the flag:\n%s", log)
	}
}

// testShim: KubeVirt's sidecar-shim runs the program for each call.
func (c *cluster) testShim(t *testing.T) {
	v := vm{
		name:    "shim",
		hooks:   [][]string{nil},
		image:   kubevirtImage,
		command: []string{"/usr/bin/sidecar-shim"},
		layout:  "root",
		devices: "nvme",
	}

	v.apply(t, c)
	v.check(t, c, "root")
	v.isWell(t, c)
}

// testShifted: an answer with one port in the next slot does not pass.
func (c *cluster) testShifted(t *testing.T) {
	v := vm{
		name:    "shifted",
		hooks:   [][]string{nil},
		image:   kubevirtImage,
		command: []string{"env", "PATH=/shift:/usr/bin:/bin", "sidecar-shim"},
		layout:  "root",
		devices: "nvme",
	}

	v.apply(t, c)
	if _, faults := v.places(t, c, "root"); len(faults) != 1 ||
		!strings.Contains(faults[0], "is in slot 01.0, want 00.0") {
		t.Errorf("a port in the next slot is found as %q", faults)
	}
}

// testNoImage: the hook's image cannot be pulled.
func (c *cluster) testNoImage(t *testing.T) {
	v := vm{name: "no-image", hooks: [][]string{nil}, image: "localhost/absent:v1", never: true}
	v.apply(t, c)
	v.awaitWhy(t, c, "image-pull")
}

// testNoNode: no node has the CPUs that the VM requests.
func (c *cluster) testNoNode(t *testing.T) {
	v := vm{name: "no-node", hooks: [][]string{nil}, dedicated: 99, never: true}
	v.apply(t, c)
	v.awaitWhy(t, c, "no-node")
}

// testKilled: a hook that is killed before its first answer is not started again, and
// virt-launcher fails.
func (c *cluster) testKilled(t *testing.T) {
	v := vm{name: "killed", hooks: [][]string{{"--layout=keep"}}, never: true}
	v.apply(t, c)
	c.onNode(t, "until pkill -KILL -f -- '[-]-layout=keep'; do sleep 0.1; done")
	v.awaitWhy(t, c, "hook-absent")
	c.await(t, "the end of the hook", func() bool {
		return v.exitCode(c, "hook-sidecar-0") == "137"
	})
}

// testLife: a VM with two hooks, the first of which places with the layout that keeps every
// path type. A user with the rights of manifests/kubectl can ask about it; virt-handler, the
// kubelet and a hook end while it runs; and after its node is drained nothing is left.
func (c *cluster) testLife(t *testing.T) {
	mirror := []string{"--layout", "mirror"}
	v := vm{
		name:      "life",
		hooks:     [][]string{mirror, mirror},
		devices:   "nvme nvme nvme nvme nic vf",
		dedicated: 3,
	}

	v.apply(t, c)
	v.judge(t, c, v.check(t, c, "mirror"))
	v.isWell(t, c)
	first, second := v.logs(c, "hook-sidecar-0"), v.logs(c, "hook-sidecar-1")
	if planned := `"msg":"domain planned"`; strings.Count(first, planned) != 2 ||
		strings.Count(second, planned) != 2 || strings.Contains(second, `"outcome":"placed"`) {
		t.Errorf("want both hooks asked twice, and the second to place nothing:\n%s\n%s", first,
			second)
	}

	c.testRights(t, v)

	c.kubectl(t, "delete", "pod", "-n", "kubevirt", "-l", "kubevirt.io=virt-handler")
	c.kubectl(t, "rollout", "status", "-n", "kubevirt", "ds/virt-handler", "--timeout=5m")
	pid := v.controlGroup(t, c, "hook-sidecar-0", "cgroup.procs")
	kubelet := inHandler("pgrep", "-x", "kubelet")
	before := c.kubectl(t, kubelet...)
	c.onNode(t, "(sleep 1; pkill -x kubelet) > /dev/null 2>&1 < /dev/null &")
	c.await(t, "the next kubelet", func() bool {
		out, err := c.command(admin, append([]string{"kubectl"}, kubelet...)...).Output()
		return err == nil && strings.TrimSpace(string(out)) != before
	})

	c.await(t, "the end of the hook", func() bool {
		// virt-handler ends with the kubelet, so that this may not reach the node at first.
		v.output(c,
			nodeScript("[[ $(< /proc/"+pid+"/comm) != hook-sidecar ]] || kill -KILL "+pid)...)
		return v.exitCode(c, "hook-sidecar-0") == "137"
	})

	v.check(t, c, "mirror")
	expect.Same(t, "Running", v.phase(c), "phase without the hook (-want +got)")

	uid := v.pod(c, "{.items[0].metadata.uid}")
	c.kubectl(t, "drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m")
	c.kubectl(t, "uncordon", "node")
	v.delete(t, c)
	c.await(t, "nothing left", func() bool {
		return c.onNode(t, "find /sys/fs/cgroup /var/lib/kubelet/pods -maxdepth 4 -name '*"+uid+
			"*'; grep "+uid+" /proc/mounts; true") == ""
	})
}

// testRights: what kubectl's plugin prints for a user with manifests/kubectl in the
// namespace, and for one without.
func (c *cluster) testRights(t *testing.T, v vm) {
	t.Helper()
	as := func(words ...string) (string, error) {
		out, err := c.plugin("user", words...).CombinedOutput()
		return string(out), err
	}

	if out, err := as("explain", v.name); err == nil ||
		!strings.Contains(out, "you may not get virtualmachineinstances") {
		t.Errorf("explain without rights: %v\n%s", err, out)
	}

	c.kubectl(t, "apply", "-f", "../../manifests/kubectl/clusterrole.yaml")
	c.kubectl(t, "create", "rolebinding", "hostdev-viewer", "--clusterrole=hostdev-viewer",
		"--user=user")
	snapshot, node := filepath.Join(t.TempDir(), "host.txtar"), filepath.Join(t.TempDir(),
		"node.txtar")
	for _, call := range []struct{ words, want string }{
		{"explain " + v.name, "VM default/" + v.name + " | node node | pod virt-launcher-"},
		{"explain", v.name + " "},
		{"doctor " + v.name, "PASS"},
		{"why " + v.name, "runs"},
		{"snapshot " + v.name + " --output-file " + snapshot, ""},
	} {
		if out, err := as(strings.Fields(call.words)...); err != nil &&
			!strings.HasPrefix(call.words, "doctor") || !strings.Contains(out, call.want) {
			t.Errorf("%s: %v\n%s", call.words, err, out)
		}
	}

	c.kubectl(t, "create", "rolebinding", "hostdev-node", "--clusterrole=hostdev-node",
		"--user=user")
	if out, err := as("snapshot", "node/node", "--debug-image", kubevirtImage, "--output-file",
		node); err != nil {
		t.Errorf("snapshot of a node through a pod of its own: %v\n%s", err, out)
	}

	// QEMU's root ports have ACS (hw/pci-bridge/pcie_root_port.c).
	const register = "/extended_capabilities --\nacs 0x"
	registers := filepath.Join(t.TempDir(), "registers.txtar")
	if out, err := as("snapshot", "node/node", "--debug-image", kubevirtImage, "--registers",
		"--output-file", registers); err != nil || strings.Contains(out, "warning") {
		t.Errorf("snapshot of a node with its registers: %v\n%s", err, out)
	}

	if with, err := os.ReadFile(registers); err != nil || !strings.Contains(string(with), register) {
		t.Errorf("a pod that may read registers did not: %v", err)
	}

	if without, err := os.ReadFile(node); err != nil || strings.Contains(string(without), register) {
		t.Errorf("a pod that may not read registers did: %v", err)
	}

	for _, file := range []string{snapshot, node} {
		if text, err := os.ReadFile(file); err != nil ||
			!strings.Contains(string(text), "0000:24:00.0") {
			t.Errorf("%s does not have the node's devices: %v", file, err)
		}
	}

	if out, err := as("explain", "-A"); err == nil ||
		!strings.Contains(out, "you may not list virtualmachineinstances in all namespaces") {
		t.Errorf("explain -A with rights in one namespace: %v\n%s", err, out)
	}
}

// all are so many devices that the kubelet cannot choose others at the next start.
const all = "nvme nvme nvme nvme nvme nic"
