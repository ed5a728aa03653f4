//go:build linux && lane

package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

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
	image     string     // of the hooks, "" for hookImage
	command   []string   // of the hooks, nil for the image's
	layout    string     // annotated, "" for none
	labels    map[string]string
	devices   string // resources of test.example, "nvme nvme nic"
	dedicated int    // CPUs, with cells of the guest and huge pages; 0 for one that is shared
	restarts  bool   // a VirtualMachine, and not only its instance
	never     bool   // it does not come to boot, and has no kernel: KubeVirt cannot mount one twice
}

func (v vm) spec() object {
	var devices []any
	for n, resource := range strings.Fields(v.devices) {
		devices = append(devices, object{
			"name": fmt.Sprint("device", n), "deviceName": "test.example/" + resource,
		})
	}

	domain := object{
		"machine": object{
			"type": "q35",
		}, "cpu": object{
			"sockets": 1, "cores": 1, "threads": 1, "model": "host-model",
		}, "memory": object{"guest": "384Mi"},
		"firmware": object{"kernelBoot": object{
			"kernelArgs": "console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off nokaslr " +
				"tsc=reliable random.trust_cpu=on maxcpus=1 stays",
			"container": object{
				"image":      images["boot"],
				"kernelPath": "/boot/vmlinuz",
				"initrdPath": "/boot/initramfs",
			},
		}},
		"devices": object{
			"autoattachGraphicsDevice": false,
			"autoattachPodInterface":   false,
			"hostDevices":              devices,
		},
	}

	if v.never {
		delete(domain, "firmware")
	}

	if v.dedicated > 0 {
		domain["cpu"] = object{
			"sockets":               1,
			"cores":                 v.dedicated,
			"threads":               1,
			"model":                 "host-model",
			"dedicatedCpuPlacement": true,
			"numa":                  object{"guestMappingPassthrough": object{}},
		}
		domain["memory"] = object{"guest": "512Mi", "hugepages": object{"pageSize": "2Mi"}}
	}

	return object{"terminationGracePeriodSeconds": 3, "domain": domain}
}

func (v vm) annotations() object {
	all := object{}
	if v.layout != "" {
		all["hostdev.vm.kubevirt.io/layout"] = v.layout
	}

	var hooks []object
	for _, args := range v.hooks {
		hooks = append(hooks, object{
			"image":   cmp.Or(v.image, hookImage),
			"command": v.command,
			"args":    append([]string{"--version", "v1alpha3"}, args...),
		})
	}

	if hooks != nil {
		text, _ := json.Marshal(hooks) // of strings
		all["hooks.kubevirt.io/hookSidecars"] = string(text)
	}

	return all
}

// manifest returns the VM as a user writes it.
func (v vm) manifest() string {
	o := object{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
		"metadata": object{
			"name": v.name, "labels": v.labels, "annotations": v.annotations(),
		}, "spec": v.spec(),
	}

	if v.restarts {
		o["kind"] = "VirtualMachine"
		o["spec"] = object{
			"runStrategy": "Always",
			"template":    object{"metadata": o["metadata"], "spec": o["spec"]},
		}

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
			t.Logf("%s\n%s\n%s", v.output(c, "describe", "vmi", v.name),
				v.output(c, "get", "pods", "-o", "wide"), v.logs(c, "compute"))
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

// boots waits until the guest has printed its report, and starts the VM again where the emulated
// node was too slow.
func (v vm) boots(t *testing.T, c *cluster) *boot.Guest {
	t.Helper()
	for {
		console, fault := v.awaitReport(t, c)
		if fault == "" {
			guest, err := boot.ReadGuest([]byte(console))
			expect.NoError(t, err)
			return guest
		}

		v.startAgain(t, c, fault)
	}
}

// awaitReport waits for the guest's report, and returns the console's text or what keeps this start
// of the VM from having one. A guest that still prints is slow, and does not hang.
func (v vm) awaitReport(t *testing.T, c *cluster) (console, fault string) {
	t.Helper()
	if fault = v.awaitStart(t, c); fault != "" {
		return "", fault
	}

	printed := time.Now()
	c.await(t, "report of guest "+v.name, func() bool {
		before := console
		console = v.logs(c, "guest-console-log")
		if console != before {
			printed = time.Now()
		}

		if time.Since(printed) > silence {
			fault = "its guest hangs"
		}

		return fault != "" || strings.Contains(console, "GUEST-END")
	})

	return console, fault
}

// awaitStart waits until the VM runs, and returns what keeps this start of it from that.
func (v vm) awaitStart(t *testing.T, c *cluster) (fault string) {
	t.Helper()
	c.await(t, "start of "+v.name, func() bool {
		phase := v.phase(c)
		if phase == "Failed" || phase == "Succeeded" {
			if fault = v.gaveUp(c); fault == "" {
				t.Fatalf("%s is %s", v.name, phase)
			}
		}

		return phase == "Running" || fault != ""
	})

	return fault
}

// gaveUp returns why virt-launcher has given up on hooks that an emulated node did not run in time:
// it waits four to six minutes for their sockets (its --qemu-timeout), and one second for the first
// answer of each (KubeVirt pkg/hooks/manager.go). It is "" where something else has ended the pod.
func (v vm) gaveUp(c *cluster) string {
	log := v.logs(c, "compute")

	switch {
	case strings.Contains(log, "panic: rpc error: code = DeadlineExceeded"):
		return "a hook did not answer in time"
	case strings.Contains(log, "panic: Failed to collect all expected sidecar hook sockets"):
		return "the hooks did not start in time"
	}

	return ""
}

// await waits for what a start of the VM brings about, and starts it again where virt-launcher has
// given up on its hooks.
func (v vm) await(t *testing.T, c *cluster, what string, done func() bool) {
	t.Helper()
	c.await(t, what, func() bool {
		if done() {
			return true
		}

		if v.phase(c) == "Failed" {
			if fault := v.gaveUp(c); fault != "" {
				v.startAgain(t, c, fault)
			}
		}

		return false
	})
}

// startAgain starts the VM again, which is counted.
func (v vm) startAgain(t *testing.T, c *cluster, why string) {
	t.Helper()
	if c.again.Add(1) > again {
		t.Fatalf("%s: %s", v.name, why)
	}

	t.Logf("%s is started again: %s", v.name, why)
	pod := v.pod(c, "{.items[0].metadata.name}")
	c.kubectl(t, "delete", "vmi", v.name, "--timeout=5m")
	c.kubectl(t, "wait", "--for=delete", "pod", pod, "--timeout=5m")
	c.apply(t, v.manifest())
}

// explain decodes the JSON of kubectl hostdev explain about the VM.
func (v vm) explain(t *testing.T, c *cluster, value any, flags ...string) {
	t.Helper()
	command := c.plugin(admin,
		append([]string{"explain", v.name, "-o", "json"}, flags...)...)
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

// check reports the faults of the VM's places, which it returns by the devices' ids.
func (v vm) check(t *testing.T, c *cluster, layout string) map[string]boot.Expected {
	t.Helper()
	seen, faults := v.places(t, c, layout)
	for _, fault := range faults {
		t.Errorf("%s: %s", v.name, fault)
	}

	return seen
}

// places: each device is in the guest's own sysfs where the plan of the layout has it, and ports
// take slots in order; with cells the path type of each pair is kept as the layout promises.
func (v vm) places(
	t *testing.T, c *cluster, layout string,
) (seen map[string]boot.Expected, faults []string) {
	t.Helper()
	guest := v.boots(t, c)
	var plan boot.Explained
	v.explain(t, c, &plan, "--layout", layout)
	var devices []e2e.Device
	ids := map[string]bool{}
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	for _, d := range plan.Devices {
		ids[d.ID] = true
		if !strings.Contains(d.ID, ":") { // a UUID that KubeVirt has chosen
			devices = append(devices, e2e.Device{ID: d.ID, IDs: mediatedIDs})
		}

		if d.Outcome != "kept" || d.Reason != "already-aligned" {
			add("%s is %s: %s", d.ID, d.Outcome, d.Reason)
		}
	}

	for _, d := range e2e.Devices() {
		if ids[d.ID] {
			devices = append(devices, d)
		}
	}

	seen = e2e.Seen(devices, guest)
	if diff := gocmp.Diff(plan.Expectations(), seen); diff != "" {
		add("devices (-planned +in the guest):\n%s", diff)
	}

	if len(seen) != len(strings.Fields(v.devices)) {
		add("%d devices in the guest, want %s", len(seen), v.devices)
	}

	faults = append(faults, slotFaults(seen)...)
	if v.dedicated > 0 {
		snapshot := c.kubectl(t, "hostdev", "snapshot", v.name)
		node, err := e2e.NodeSpots([]byte(snapshot+"\n"), devices)
		expect.NoError(t, err)
		faults = append(faults, pathTypeFaults(layout, node, e2e.GuestSpots(guest, devices))...)
	}

	return seen, faults
}

// mediatedIDs are the vendor and device of a mediated device.
const mediatedIDs = "4348:5053"

// slotFaults: the hook gives the ports of a bus that it has made slots from 0 on. libvirt and
// QEMU accept any other, so nothing else would show that an answer has changed on its way.
func slotFaults(seen map[string]boot.Expected) (faults []string) {
	buses := map[string][]string{}
	for _, place := range seen {
		bus, rest := "", strings.Split(place.Tree, "/")
		for n, slot := range rest[:len(rest)-1] {
			if n > 0 && rest[0] != "pci0000:00" && !slices.Contains(buses[bus], slot) {
				buses[bus] = append(buses[bus], slot)
			}
			bus += slot + "/"
		}
	}

	for bus, slots := range buses {
		slices.Sort(slots)
		for n, slot := range slots {
			if want := fmt.Sprintf("%02x.0", n); slot != want {
				faults = append(faults,
					fmt.Sprintf("a port of %s is in slot %s, want %s", bus, slot, want))
			}
		}
	}

	return faults
}

// pathTypeFaults: mirror keeps every path type, any layout SYS.
func pathTypeFaults(layout string, node, guest map[string]tree.Spot) (faults []string) {
	ids := slices.Sorted(maps.Keys(node))
	for n, a := range ids {
		for _, b := range ids[n+1:] {
			want, got := tree.PathType(node[a], node[b]), tree.PathType(guest[a], guest[b])
			if want != got && (layout == "mirror" || want == "SYS" || got == "SYS") {
				faults = append(faults,
					fmt.Sprintf("%s and %s: %s on the node, %s in the guest", a, b, want, got))
			}
		}
	}

	return faults
}

// uid returns the instance's uid, "" where there is none.
func (v vm) uid(c *cluster) string {
	return v.output(c, "get", "vmi", v.name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
}

// pod returns a JSONPath of the list of the list of the VM's pods.
func (v vm) pod(c *cluster, path string) string {
	return v.output(c, "get", "pod", "-l", "vm.kubevirt.io/name="+v.name, "-o", "jsonpath="+path)
}

// containers returns the names of the containers of the VM's pod, "" where there is none.
func (v vm) containers(c *cluster) string {
	return v.pod(c, "{.items[*].spec['initContainers','containers'][*].name}")
}
