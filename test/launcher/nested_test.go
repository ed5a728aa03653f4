//go:build linux && lane

package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/e2e"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/tree"
)

// attempts are how often a node is started whose emulation fails before the next pod has
// its result. A pod with a result is not run again.
const attempts = 4

// passthrough returns a VM with devices of the node.
func passthrough(t *testing.T, devices []e2e.Device) pod {
	t.Helper()
	vmi := readObject(t, "testdata", "plain.json")
	domain := at(vmi, "spec", "domain")
	domain["cpu"] = object{
		"sockets":               1,
		"cores":                 2,
		"threads":               1,
		"model":                 "host-passthrough",
		"dedicatedCpuPlacement": true,
		"numa":                  object{"guestMappingPassthrough": object{}},
	}

	domain["memory"] = object{"guest": "512Mi", "hugepages": object{"pageSize": "2Mi"}}
	domain["resources"] = object{
		"requests": object{"memory": "512Mi", "cpu": "2"},
		"limits":   object{"memory": "512Mi", "cpu": "2"},
	}

	p := pod{config: config{VMI: vmi, Syncs: 1, Cells: true, Boots: true}}
	p.addArguments(boot.Steady)
	for _, d := range devices {
		p.add(d)
	}

	return p
}

// add gives the VM a device, and its pod the device plugin's variable for it.
func (p *pod) add(d e2e.Device) {
	vmi := p.VMI.(object)
	spec, devices := at(vmi, "spec"), at(vmi, "spec", "domain", "devices")
	list := func(o object, key string, entry object) {
		old, _ := o[key].([]any)
		o[key] = append(old, entry)
	}

	name := fmt.Sprint("device", len(p.Env))
	resource := "lab.example/" + name
	variable := "LAB_EXAMPLE_" + strings.ToUpper(name) + "=" + d.ID
	switch {
	case !strings.Contains(d.ID, ":"): // a UUID
		list(devices, "gpus", object{
			"name":              name,
			"deviceName":        resource,
			"virtualGPUOptions": object{"display": object{"enabled": false}},
		})
		p.Env = append(p.Env, "MDEV_PCI_RESOURCE_"+variable)

	case isVF(d): // a virtual function, as Multus' status names it
		list(devices, "interfaces", object{"name": "rdma", "sriov": object{}})
		list(spec, "networks", object{"name": "rdma", "multus": object{"networkName": "rdma"}})
		list(at(vmi, "status"), "interfaces", object{"name": "rdma", "infoSource": "multus-status"})
		p.Network = `{"interfaces":[{"network":"rdma","deviceInfo":{"type":"pci",` +
			`"version":"1.0.0","pci":{"pci-address":"` + d.ID + `"}}}]}`
		p.Env = append(p.Env, "PCIDEVICE_"+variable)

	case d.IDs == "8086:10d3":
		list(devices, "gpus", object{"name": name, "deviceName": resource})
		p.Env = append(p.Env, "PCI_RESOURCE_"+variable)

	default:
		list(devices, "hostDevices", object{"name": name, "deviceName": resource})
		p.Env = append(p.Env, "PCI_RESOURCE_"+variable)
	}
}

// nested is a pod of the node.
type nested struct {
	name   string
	pod    pod
	layout string // of the plan; "" without the hook
	exact  bool   // each pair has the node's path type
	row    string // of the table in docs/comparison.md
	record string // directory of testdata/launcher
	wrong  bool   // the hook, on purpose: the test of this test
}

func nestedPods(t *testing.T) []nested {
	t.Helper()
	with := func(set func(*pod)) pod {
		p := passthrough(t, e2e.Devices())
		set(&p)
		return p
	}

	hook := func(layout string) pod {
		return with(func(p *pod) { p.Hook = []string{"--layout", layout} })
	}

	return []nested{
		{name: "none", row: "without the hook", pod: with(func(*pod) {})},
		{name: "gate", row: "gate `PCINUMAAwareTopology`", pod: with(func(p *pod) {
			p.Aware = true
		})},
		{name: "auto", row: "layout `auto`", pod: hook("auto"), layout: "auto"},
		{name: "numa", row: "layout `numa`", pod: hook("numa"), layout: "numa"},
		{name: "root", row: "layout `root`", pod: hook("root"), layout: "root"},
		{name: "mirror", record: "node", row: "layout `mirror`", pod: hook("mirror"),
			layout: "mirror", exact: true},
		{name: "gate-mirror", pod: with(func(p *pod) {
			p.Aware, p.Hook = true, []string{"--layout", "mirror"}
		}), layout: "mirror", exact: true},
		{name: "hotplug", pod: hotplugged(t), layout: "mirror"},
		{name: "wrong", pod: with(func(p *pod) {
			p.Hook, p.Fault = []string{"--layout", "mirror"}, fault{2, "answer", "shift"}
		}), layout: "mirror", wrong: true},
	}
}

// addArguments gives the guest's kernel further arguments.
func (p pod) addArguments(arguments string) {
	start := at(p.VMI.(object), "spec", "domain", "firmware", "kernelBoot")
	start["kernelArgs"] = start["kernelArgs"].(string) + " " + arguments
}

func isVF(d e2e.Device) bool { return d.IDs == vfIDs }

// vfIDs are the vendor and device of the virtual function.
const vfIDs = "8086:10ca"

// hotplugged returns a VM that gets the virtual function while it runs: the only kind of device
// that KubeVirt plugs in (KubeVirt virtwrap/manager.go, HotplugHostDevices). Its guest waits for
// it.
func hotplugged(t *testing.T) pod {
	t.Helper()
	p := passthrough(t, slices.DeleteFunc(e2e.Devices(), isVF))
	p.Hook = []string{"--layout", "mirror"}
	p.addArguments("plugged=" + vfIDs)
	later := passthrough(t, e2e.Devices())
	p.Plug, p.Network = &hotplug{VMI: later.VMI, After: "GUEST-WAITS"}, later.Network
	return p
}

// TestNested runs pods with vfio-pci in the machine of test/e2e, one after the other.
func TestNested(t *testing.T) {
	l := newLab(t)
	pods := nestedPods(t)
	if only := os.Getenv("LAUNCHER_ONLY"); only != "" {
		pods = slices.DeleteFunc(pods, func(n nested) bool {
			return !slices.Contains(strings.Split(only, ","), n.name)
		})
	}

	share := l.runNode(t, pods)
	for _, n := range pods {
		t.Run(n.name, func(t *testing.T) {
			o := read(t, l, n.pod, filepath.Join(share, n.name, "out"))
			faults := n.faults(t, l, o, filepath.Join(share, "out", "host.txtar"))
			if n.wrong {
				mustFind(t, faults, movedFault, planFault)
				return
			}

			for _, fault := range faults {
				t.Error(fault)
			}

			if n.record != "" {
				o.compareRecord(t, n.record)
			}
		})
	}
}

// runNode runs the pods and returns the directory with what they wrote.
func (l lab) runNode(t *testing.T, pods []nested) string {
	t.Helper()
	image := os.Getenv(imageVariable)
	share := t.TempDir()
	var names strings.Builder
	expect.NoError(t, e2e.Share(share))
	for _, n := range pods {
		fmt.Fprintln(&names, n.name)
		expect.NoError(t, os.Rename(l.share(t, n.pod), filepath.Join(share, n.name)))
	}

	copyFile(t, filepath.Join(share, "hook-sidecar"), l.program)
	expect.NoError(t, os.WriteFile(filepath.Join(share, "pods"), []byte(names.String()), 0o644))
	expect.NoError(t, os.Mkdir(filepath.Join(share, "out"), 0o755))
	initramfs, programs := filepath.Join(l.files, "node"), filepath.Join(l.files,
		"programs.squashfs")
	expect.NoError(t, e2e.Initramfs(image, "tun", "veth", "bridge", "vhost_net").Write(initramfs))
	if out, err := exec.Command("mksquashfs", l.layer, programs, "-noI", "-noD", "-noF", "-noX",
		"-no-progress", "-quiet").CombinedOutput(); err != nil {
		t.Fatalf("mksquashfs: %v: %s", err, out)
	}

	for attempt, results := 1, 0; ; attempt++ {
		began := time.Now()
		console, err := e2e.Machine{
			Image: image, Initramfs: initramfs, Share: share, Programs: programs,
		}.Boot(t.Context())

		t.Logf("attempt %d of %d: %v, %v\n%s", attempt, attempts,
			time.Since(began).Round(time.Second), err, progress(console))

		switch end := console[max(0, len(console)-6000):]; {
		case err == nil:
			return share
		case !errors.Is(err, boot.ErrLost) || attempt == attempts:
			t.Fatalf("the node failed: %v\n%s", err, end)
		default:
			t.Logf("the end of its console:\n%s", end)
		}

		expect.NoError(t, clearHalf(share, pods))
		if now := countResults(share, pods); now > results {
			attempt, results = 0, now
		}
	}
}

// hasResult reports whether a pod has run to its end.
func (n nested) hasResult(share string) bool {
	_, err := os.Stat(filepath.Join(share, n.name, "out", "result.json"))
	return err == nil
}

func countResults(share string, pods []nested) int {
	count := 0
	for _, n := range pods {
		if n.hasResult(share) {
			count++
		}
	}

	return count
}

// clearHalf removes what a pod has written of half a run, which is not its result.
func clearHalf(share string, pods []nested) (err error) {
	for _, n := range pods {
		if !n.hasResult(share) {
			out := filepath.Join(share, n.name, "out")
			err = errors.Join(err, os.RemoveAll(out), os.Mkdir(out, 0o755))
		}
	}

	return err
}

// progress returns the lines of the node and its pods.
func progress(console []byte) string {
	var lines []string
	for line := range strings.Lines(string(console)) {
		if strings.HasPrefix(line, "HOST") || strings.HasPrefix(line, "POD") {
			lines = append(lines, line)
		}
	}

	return strings.Join(lines, "")
}

// faults returns what is not as it should be.
func (n nested) faults(t *testing.T, l lab, o outcome, host string) (faults []string) {
	t.Helper()
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	if !slices.Equal(o.Syncs, []string{""}) || o.Plugged != "" || len(o.Running) > 0 {
		add("virt-handler gets %q, and when it adds a device %q; still running: %v", o.Syncs,
			o.Plugged, o.Running)
	}

	if moved := o.moved(t); n.layout != "" && len(moved) > 0 {
		add("%s:\n%s", movedFault, strings.Join(moved, "\n"))
	}

	guest, err := boot.ReadGuest(o.file(t, "console"))
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(o.path("guest.txtar"), guest.Snapshot, 0o644))
	faults = append(faults, n.pairFaults(t, host, guest)...)
	if n.layout != "" {
		faults = append(faults, n.planFaults(t, l, o, host)...)
	}

	return faults
}

// pairFaults measures in the guest's sysfs.
func (n nested) pairFaults(t *testing.T, host string, guest *boot.Guest) (faults []string) {
	t.Helper()
	snapshot := expect.File(t, host)
	node, err := e2e.NodeSpots(snapshot, e2e.Devices())
	expect.NoError(t, err)
	seen := e2e.GuestSpots(guest, e2e.Devices())
	if len(seen) != len(e2e.Devices()) {
		faults = append(faults,
			fmt.Sprintf("the guest shows %d devices, want %d: %v", len(seen), len(e2e.Devices()),
				slices.Sorted(maps.Keys(seen))))
	}

	same, all := pairs(node, seen)
	t.Logf("PAIRS %s: %d of %d as on the node", n.name, same, all)
	if n.row != "" {
		checkTable(t, n.row, 3, same)
	}

	if n.exact && same != all {
		faults = append(faults, fmt.Sprintf("%d of %d pairs are as on the node", same, all))
	}

	return faults
}

// planFaults: libvirt holds what was planned, and `explain --guest` finds each device
// as planned in the guest's snapshot of itself.
func (n nested) planFaults(t *testing.T, l lab, o outcome, host string) (faults []string) {
	t.Helper()
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	flags := []string{"--layout", n.layout, "--sysfs", host}
	hostdevs, _ := places(t, string(o.file(t, "defined.xml")))
	if d := cmp.Diff(o.planned(t, l, flags), hostdevs); d != "" {
		add("%s:\n%s", planFault, d)
	}

	domain := "defined.xml"
	if n.pod.Plug != nil {
		domain, flags[1] = "plugged.xml", "keep"
		faults = append(faults, n.plugFaults(t, o)...)
	}

	compared := &boot.Compared{}
	answer := o.ask(t, l, domain,
		append([]string{
			"explain", "-o", "json", "--guest", o.path("guest.txtar"),
		}, flags...)...)

	expect.NoError(t, json.Unmarshal(answer, compared))
	if len(compared.Devices) != len(e2e.Devices()) || len(compared.Notes) > 0 {
		add("%d devices are compared, want %d; notes: %q", len(compared.Devices),
			len(e2e.Devices()), compared.Notes)
	}

	for _, d := range compared.Devices {
		if d.Outcome != "as-planned" {
			add("%s is %s: %q", d.ID, d.Outcome, d.Differences)
		}
	}

	return faults
}

// plugFaults: KubeVirt does not ask the hook for a device that it adds to a running
// VM, and libvirt puts it on a free port of the root bus, without a node. The others
// stay. `explain` of the running domain shows what the next start does with it, and
// with layout keep what is.
func (n nested) plugFaults(t *testing.T, o outcome) (faults []string) {
	t.Helper()
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	before, _ := places(t, string(o.file(t, "defined.xml")))
	after, _ := places(t, string(o.file(t, "plugged.xml")))
	for id, at := range after {
		was, known := before[id]
		if known && was != at {
			add("%s moved: %s, was %s", id, at, was)
		}

		if !known && (!strings.HasPrefix(at, "pci0000:00/") || !strings.HasSuffix(at, "node -1")) {
			add("%s is at %s, want a port of the root bus", id, at)
		}
	}

	if len(after) != len(before)+1 {
		add("%d devices after one was added to %d", len(after), len(before))
	}

	return faults
}

// pairs counts the pairs of devices, and those with the same path type in both trees.
func pairs(node, guest map[string]tree.Spot) (same, all int) {
	ids := slices.Sorted(maps.Keys(node))
	for n, a := range ids {
		for _, b := range ids[n+1:] {
			all++
			if tree.PathType(node[a], node[b]) == tree.PathType(guest[a], guest[b]) {
				same++
			}
		}
	}

	return same, all
}
