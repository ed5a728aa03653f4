//go:build linux

package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/e2e"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/tree"
)

// placement is the label of the plugin.
var placement = map[string]string{"hostdev.vm.kubevirt.io/placement": "enabled"}

type object = map[string]any

// vm is a VM that a case applies.
type vm struct {
	name      string
	hooks     [][]string // arguments of each hook sidecar
	labels    map[string]string
	devices   string // resources of test.example, "nvme nvme nic"
	dedicated int    // CPUs, with cells of the guest and huge pages; 0 for one that is shared
	restarts  bool   // a VirtualMachine, and not only its instance
	never     bool   // it does not come to boot, and has no kernel: KubeVirt cannot mount one twice
}

func (v vm) spec() object {
	var devices []any
	for n, resource := range strings.Fields(v.devices) {
		devices = append(devices, object{"name": fmt.Sprint("device", n), "deviceName": "test.example/" + resource})
	}
	domain := object{
		"machine": object{"type": "q35"}, "cpu": object{"sockets": 1, "cores": 1, "threads": 1, "model": "host-model"}, "memory": object{"guest": "384Mi"},
		"firmware": object{"kernelBoot": object{
			"kernelArgs": "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on stays",
			"container":  object{"image": images["boot"], "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initramfs"},
		}},
		"devices": object{"autoattachGraphicsDevice": false, "autoattachPodInterface": false, "hostDevices": devices},
	}
	if v.never {
		delete(domain, "firmware")
	}
	if v.dedicated > 0 {
		domain["cpu"] = object{"sockets": 1, "cores": v.dedicated, "threads": 1, "model": "host-model", "dedicatedCpuPlacement": true, "numa": object{"guestMappingPassthrough": object{}}}
		domain["memory"] = object{"guest": "512Mi", "hugepages": object{"pageSize": "2Mi"}}
	}
	return object{"terminationGracePeriodSeconds": 3, "domain": domain}
}

func (v vm) annotations() object {
	var hooks []any
	for _, args := range v.hooks {
		hooks = append(hooks, object{"image": hookImage, "args": append([]string{"--version", "v1alpha3"}, args...)})
	}
	if hooks == nil {
		return nil
	}
	text, _ := json.Marshal(hooks) // of strings
	return object{"hooks.kubevirt.io/hookSidecars": string(text)}
}

// manifest is the VM as a user writes it.
func (v vm) manifest() string {
	o := object{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": object{"name": v.name, "labels": v.labels, "annotations": v.annotations()}, "spec": v.spec(),
	}
	if v.restarts {
		o["kind"] = "VirtualMachine"
		o["spec"] = object{"runStrategy": "Always", "template": object{"metadata": o["metadata"], "spec": o["spec"]}}
		o["metadata"] = object{"name": v.name}
	}
	text, _ := json.Marshal(o) // of maps and strings
	return string(text)
}

// apply creates the VM, and deletes it at the end of the test.
func (v vm) apply(t *testing.T, c *cluster) {
	t.Helper()
	c.apply(t, v.manifest())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s\n%s", v.output(c, "describe", "vmi", v.name), v.output(c, "get", "pods", "-o", "wide"), v.logs(c, "compute"))
		}
		v.delete(t, c)
	})
}

// delete deletes the VM and waits until its pod, and with it its devices, is gone.
func (v vm) delete(t *testing.T, c *cluster) {
	t.Helper()
	c.kubectl(t, "delete", "vm,vmi", v.name, "--ignore-not-found", "--timeout=5m")
	c.kubectl(t, "wait", "--for=delete", "pod", "-l", "vm.kubevirt.io/name="+v.name, "--timeout=5m")
}

func (v vm) output(c *cluster, args ...string) string {
	out, _ := c.command(admin, append([]string{"kubectl"}, args...)...).CombinedOutput()
	return string(out)
}

// logs returns the log of a container of the VM's pod.
func (v vm) logs(c *cluster, container string) string {
	return v.output(c, "logs", "-l", "vm.kubevirt.io/name="+v.name, "-c", container, "--tail=-1")
}

func (v vm) phase(c *cluster) string {
	return strings.TrimSpace(v.output(c, "get", "vmi", v.name, "-o", "jsonpath={.status.phase}"))
}

// boots waits until the guest has printed its report.
func (v vm) boots(t *testing.T, c *cluster) *boot.Guest {
	t.Helper()
	var console string
	c.await(t, "guest "+v.name, func() bool {
		// virt-launcher gives a hook one second for its first answer, which an emulated node that is
		// busy does not always have.
		if strings.Contains(v.logs(c, "compute"), "panic: rpc error: code = DeadlineExceeded") && c.again.Add(1) <= again {
			t.Logf("%s: virt-launcher gave up, the node was too slow", v.name)
			pod := v.pod(c, "{.items[0].metadata.name}")
			c.kubectl(t, "delete", "vmi", v.name, "--timeout=5m")
			c.kubectl(t, "wait", "--for=delete", "pod", pod, "--timeout=5m")
			c.apply(t, v.manifest())
			return false
		}
		if phase := v.phase(c); phase == "Failed" || phase == "Succeeded" {
			t.Fatalf("%s is %s", v.name, phase)
		}
		console = v.logs(c, "guest-console-log")
		return strings.Contains(console, "GUEST-END")
	})
	guest, err := boot.ReadGuest([]byte(console))
	expect.NoError(t, err)
	return guest
}

// explain decodes the JSON of kubectl hostdev explain about the VM.
func (v vm) explain(t *testing.T, c *cluster, value any, flags ...string) {
	t.Helper()
	command := c.command(admin, append([]string{"kubectl", "hostdev", "explain", v.name, "--format", "json"}, flags...)...)
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err == nil {
		err = json.Unmarshal(out, value)
	}
	if err != nil {
		t.Fatalf("explain %s: %v\n%s", v.name, err, errs.String())
	}
}

// check: each device is in the guest's own sysfs where the plan of the layout has it; with
// cells the path type of each pair is kept as the layout promises. It returns the places by
// the devices' ids.
func (v vm) check(t *testing.T, c *cluster, layout string) map[string]boot.Expected {
	t.Helper()
	guest := v.boots(t, c)
	var plan boot.Explained
	v.explain(t, c, &plan, "--layout", layout)
	var devices []e2e.Device
	ids := map[string]bool{}
	for _, d := range plan.Devices {
		ids[d.ID] = true
		if d.Outcome != "kept" || d.Reason != "already-aligned" {
			t.Errorf("%s is %s: %s", d.ID, d.Outcome, d.Reason)
		}
	}
	for _, d := range e2e.Devices() {
		if ids[d.ID] {
			devices = append(devices, d)
		}
	}
	seen := e2e.Seen(devices, guest)
	expect.Same(t, plan.Expectations(), seen, "%s: devices (-planned +in the guest)", v.name)
	if len(seen) != len(strings.Fields(v.devices)) {
		t.Errorf("%s: %d devices in the guest, want %s", v.name, len(seen), v.devices)
	}
	if v.dedicated > 0 {
		snapshot := c.kubectl(t, "hostdev", "snapshot", v.name)
		node, err := e2e.NodeSpots([]byte(snapshot+"\n"), devices)
		expect.NoError(t, err)
		checkPathTypes(t, layout, node, e2e.GuestSpots(guest, devices))
	}
	return seen
}

// checkPathTypes: mirror keeps every path type, any layout SYS.
func checkPathTypes(t *testing.T, layout string, node, guest map[string]tree.Spot) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(node))
	for n, a := range ids {
		for _, b := range ids[n+1:] {
			want, got := tree.PathType(node[a], node[b]), tree.PathType(guest[a], guest[b])
			if want != got && (layout == "mirror" || want == "SYS" || got == "SYS") {
				t.Errorf("%s and %s: %s on the node, %s in the guest", a, b, want, got)
			}
		}
	}
}

// uid is that of the instance, "" where there is none.
func (v vm) uid(c *cluster) string {
	return v.output(c, "get", "vmi", v.name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
}

// pod is a JSONPath of the list of the list of the VM's pods.
func (v vm) pod(c *cluster, path string) string {
	return v.output(c, "get", "pod", "-l", "vm.kubevirt.io/name="+v.name, "-o", "jsonpath="+path)
}

// containers are the names of those of the VM's pod, "" where there is none.
func (v vm) containers(c *cluster) string {
	return v.pod(c, "{.items[*].spec['initContainers','containers'][*].name}")
}
