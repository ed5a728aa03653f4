//go:build linux && lane

package launcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/e2e"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/tree"
)

// pod is a pod to run.
type pod struct {
	config
	files map[string][]byte // for /lab
}

// config is pod.json; kubevirt/pod/main.go explains it.
type config struct {
	VMI          any
	Hook, Plugin []string
	Second       []string
	Other        string
	Target       bool
	Env          []string
	Network      string
	Cells, Aware bool
	Syncs        int
	Boots        bool
	Plug         *hotplug
	Ask          []string
	Fault        fault
}

type hotplug struct {
	VMI   any
	After string
}

type fault struct {
	Call   int
	At, Do string
}

// object is a JSON object.
type object = map[string]any

// at returns the object under these keys.
func at(o object, keys ...string) object {
	for _, key := range keys {
		o = o[key].(object)
	}
	return o
}

func readObject(t *testing.T, path ...string) object {
	t.Helper()
	data := expect.File(t, filepath.Join(path...))
	o := object{}
	expect.NoError(t, json.Unmarshal(data, &o))
	return o
}

// plain returns a VM without devices.
func plain(t *testing.T) pod {
	t.Helper()
	p := pod{
		config: config{VMI: readObject(t, "testdata", "plain.json"), Syncs: 1},
		files:  map[string][]byte{"cpuset": []byte("0-1\n"), "host.txtar": readHost(t)},
	}

	p.addArguments(boot.Steady)
	return p
}

const (
	hgxSample = "02-8gpu-8nic-gate-off"
	hgxFile   = "../../testdata/hosts/x86-2n8g-hgx-h100.txtar"
)

// hgx returns the VM of the sample with eight GPUs and eight virtual functions, in a pod on that
// host: the device plugins' variables, Multus' status, the node's cells and the pod's CPUs. Its
// disks are replaced with one that needs no claim.
func hgx(t *testing.T) pod {
	t.Helper()
	testdata := filepath.Join("..", "..", "testdata")
	domain := expect.File(t, filepath.Join(testdata, "samples", hgxSample+".xml"))
	read, err := tree.Read(domain)
	expect.NoError(t, err)
	address := map[string]string{} // by the name in the VMI
	for id, d := range read.Hostdevs {
		alias := d.Find("alias").Attr("name")
		address[alias[strings.LastIndex(alias, "-")+1:]] = id
	}

	vmi := readObject(t, testdata, "samples", hgxSample+".vmi.json")
	maps.Copy(at(vmi, "metadata"),
		object{"name": "testvm", "uid": "11111111-2222-4333-8444-555555555555",
			"labels": object{"hostdev.vm.kubevirt.io/placement": "enabled"}})

	spec, devices := at(vmi, "spec"), at(vmi, "spec", "domain", "devices")
	spec["terminationGracePeriodSeconds"] = 0
	spec["volumes"] = []any{object{"name": "scratch", "emptyDisk": object{"capacity": "16Mi"}}}
	devices["disks"] = []any{object{"name": "scratch", "disk": object{"bus": "virtio"}}}
	var gpus []string
	for _, gpu := range devices["gpus"].([]any) {
		gpus = append(gpus, address[gpu.(object)["name"].(string)])
	}

	var networks, status []any
	for _, nic := range devices["interfaces"].([]any) {
		name := nic.(object)["name"].(string)
		if _, vf := nic.(object)["sriov"]; vf {
			networks = append(networks, object{
				"network": name,
				"deviceInfo": object{
					"type": "pci", "version": "1.0.0", "pci": object{"pci-address": address[name]},
				},
			})
			status = append(status, object{"name": name, "infoSource": "multus-status"})
		} else {
			nic.(object)["macAddress"] = "02:00:00:00:00:07" // else a random one
		}
	}

	vmi["status"] = object{"phase": "Scheduled", "interfaces": status}
	info, err := json.Marshal(object{"interfaces": networks})
	expect.NoError(t, err)
	nodes, err := e2e.NodeSpots(readHost(t), devicesOf(read))
	expect.NoError(t, err)
	files := map[string][]byte{
		"host.txtar":       readHost(t),
		"cpuset":           []byte("2-26,58-81,114-137,170-193\n"),
		"capabilities.xml": capabilities(),
	}

	for id, spot := range nodes {
		files[filepath.Join("pci", id, "numa_node")] = fmt.Appendln(nil, spot.Node)
	}

	return pod{
		config: config{
			VMI:     vmi,
			Syncs:   1,
			Cells:   true,
			Network: string(info),
			Env: []string{
				"PCI_RESOURCE_NVIDIA_COM_GH100_H100_SXM5_80GB=" + strings.Join(gpus, ","),
			},
		},
		files: files,
	}
}

const vgpuFile = "../../testdata/hosts/x86-2n2g-t4-vgpu.txtar"

// vgpu returns a VM with a mediated device of that host.
func vgpu(t *testing.T) pod {
	t.Helper()
	host := expect.File(t, vgpuFile)
	p := passthrough(t, []e2e.Device{{ID: "4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01"}})
	at(p.VMI.(object), "spec", "domain", "cpu")["model"] = "host-model" // emulated
	p.files = map[string][]byte{
		"host.txtar": host, "cpuset": []byte("0-1\n"), "capabilities.xml": capabilities(),
	}

	return p
}

// devicesOf returns the passed-through devices of a domain.
func devicesOf(read *tree.Tree) (all []e2e.Device) {
	for id := range read.Hostdevs {
		all = append(all, e2e.Device{ID: id})
	}
	return all
}

func readHost(t *testing.T) []byte {
	t.Helper()
	host := expect.File(t, hgxFile)
	return host
}

// capabilities returns the host's cells: two sockets with 56 cores of two threads.
func capabilities() []byte {
	var cells strings.Builder
	for node := range 2 {
		fmt.Fprintf(&cells,
			`<cell id="%d"><memory unit="KiB">1056766976</memory><distances>`+
				`<sibling id="%d" value="10"/><sibling id="%d" value="21"/></distances>`+
				`<cpus num="112">`, node, node, 1-node)
		for thread := range 2 {
			for core := 56 * node; core < 56*(node+1); core++ {
				fmt.Fprintf(&cells, `<cpu id="%d" socket_id="%d" core_id="%d" siblings="%d,%d"/>`,
					core+112*thread, node, core, core, core+112)
			}
		}

		cells.WriteString("</cpus></cell>")
	}

	return []byte(`<capabilities><host><topology><cells num="2">` + cells.String() +
		"</cells></topology></host></capabilities>")
}
