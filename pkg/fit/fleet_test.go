package fit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// driver publishes devices as a real driver does.
type driver struct {
	name, class string
	selector    string // of its DeviceClass
	attributes  func(root string, numa *int64, address string) map[string]any
}

// The drivers, and the names under which they publish root, node and address.
func nvidia() driver {
	return driver{
		"gpu.nvidia.com", "vfio.gpu.nvidia.com", `device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "vfio"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{"type": "vfio", pcieRoot: root, numaNode: numa, "resource.kubernetes.io/pciBusID": address}
		},
	}
}

func rocm() driver {
	return driver{
		"gpu.amd.com", "gpu.amd.com", `device.driver == "gpu.amd.com"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{pcieRoot: root, "numaNode": numa, "pciAddr": address}
		},
	}
}

func intel() driver {
	return driver{
		"gpu.intel.com", "gpu.intel.com", `device.driver == "gpu.intel.com"`,
		func(root string, _ *int64, address string) map[string]any {
			return map[string]any{"pciRoot": root, "pciBusID": address} // before 0.10
		},
	}
}

func sriov() driver {
	return driver{
		"sriovnetwork.k8snetworkplumbingwg.io", "sriov", `device.driver == "sriovnetwork.k8snetworkplumbingwg.io"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{pcieRoot: root, "dra.net/numaNode": numa, "resource.kubernetes.io/pciBusID": address, "pciAddress": address}
		},
	}
}

// cpus publishes lists: a socket has several PCIe roots.
func cpus() driver {
	return driver{
		"dra.cpu", "cpu", `device.driver == "dra.cpu"`,
		func(root string, numa *int64, _ string) map[string]any {
			return map[string]any{pcieRoot: []string{root, "pci0000:00"}, "dra.cpu/numaNodeID": numa}
		},
	}
}

func (d driver) deviceClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: d.class}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: d.selector}}},
	}}
}

// at is where a device is on its host.
type at struct {
	root, address string
	numa          int64 // -1 for none
}

// slice publishes devices of a node.
func (d driver) slice(node string, devices []at) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + d.class}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: d.name, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
	for i, of := range devices {
		device := resourceapi.Device{Name: fmt.Sprint(d.class[:3], "-", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		numa := &of.numa
		if of.numa < 0 {
			numa = nil
		}
		for name, value := range d.attributes(of.root, numa, of.address) {
			switch v := value.(type) {
			case string:
				device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: &v}
			case []string:
				device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValues: v}
			case *int64:
				if v != nil {
					device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{IntValue: v}
				}
			}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

// devicesOf returns the GPUs and the NICs of a host of testdata; of NICs with virtual functions
// these only.
func devicesOf(t testing.TB, name string) (gpus, nics []at) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "hosts", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := host.ParseSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	read, problems := host.Read(snapshot, nil, host.Needs{All: true})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, d := range read.Devices {
		of := at{string(d.Root), d.Address.String(), -1}
		if n, isKnown := d.Node.Node(); isKnown {
			of.numa = int64(n)
		}
		hasFunctions := slices.ContainsFunc(read.Devices, func(f topology.Device) bool { return f.PhysFn != nil && *f.PhysFn == d.Address })
		switch {
		case d.IsGPU() && d.Vendor == 0x10de:
			gpus = append(gpus, of)
		case d.IsNIC() && !hasFunctions:
			nics = append(nics, of)
		}
	}
	return gpus, nics
}

// allocated returns a claim that has devices of a slice.
func allocated(name string, s *resourceapi.ResourceSlice, devices ...int) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ml", UID: types.UID(name)}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, i := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: s.Spec.Devices[i].Name,
		})
	}
	return c
}

func ctx() context.Context { return context.Background() }
