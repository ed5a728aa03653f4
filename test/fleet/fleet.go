// Package fleet publishes hosts of testdata as ResourceSlices, each attribute under the name
// that its driver gives it.
package fleet

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// Driver publishes devices as a real driver does.
type Driver struct {
	Name, Class string
	device      string // prefix of its devices' names
	selector    string // of its DeviceClass
	attributes  func(root string, numa *int64, address string) map[string]any
}

// Names that Kubernetes defines.
const (
	pcieRoot = "resource.kubernetes.io/pcieRoot"
	numaNode = "resource.kubernetes.io/numaNode"
	pciBusID = "resource.kubernetes.io/pciBusID"
)

// NVIDIA returns dra-driver-nvidia-gpu, for passthrough.
func NVIDIA() Driver {
	return Driver{
		"gpu.nvidia.com", "vfio.gpu.nvidia.com", "gpu",
		`device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "vfio"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{"type": "vfio", pcieRoot: root, numaNode: numa, pciBusID: address}
		},
	}
}

// ROCm returns ROCm/k8s-gpu-dra-driver.
func ROCm() Driver {
	return Driver{
		"gpu.amd.com", "gpu.amd.com", "gpu", `device.driver == "gpu.amd.com"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{pcieRoot: root, "numaNode": numa, "pciAddr": address}
		},
	}
}

// Intel returns intel-resource-drivers-for-kubernetes before 0.10.
func Intel() Driver {
	return Driver{
		"gpu.intel.com", "gpu.intel.com", "gpu", `device.driver == "gpu.intel.com"`,
		func(root string, _ *int64, address string) map[string]any {
			return map[string]any{"pciRoot": root, "pciBusID": address}
		},
	}
}

// SRIOV returns k8snetworkplumbingwg/dra-driver-sriov.
func SRIOV() Driver {
	return Driver{
		"sriovnetwork.k8snetworkplumbingwg.io", "sriov", "vf",
		`device.driver == "sriovnetwork.k8snetworkplumbingwg.io"`,
		func(root string, numa *int64, address string) map[string]any {
			return map[string]any{
				pcieRoot: root, "dra.net/numaNode": numa, pciBusID: address, "pciAddress": address,
			}
		},
	}
}

// CPUs returns dra-driver-cpu, which publishes lists: a socket has several PCIe roots.
func CPUs() Driver {
	return Driver{
		"dra.cpu", "cpu", "cpu", `device.driver == "dra.cpu"`,
		func(root string, numa *int64, _ string) map[string]any {
			return map[string]any{
				pcieRoot: []string{root, "pci0000:00"}, "dra.cpu/numaNodeID": numa,
			}
		},
	}
}

// DeviceClass returns the class of the driver's devices.
func (d Driver) DeviceClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{TypeMeta: typeMeta("DeviceClass"),
		ObjectMeta: metav1.ObjectMeta{
			Name: d.Class,
		}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: d.selector}},
			},
		}}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: kind}
}

// Node returns a node without anything beside devices.
func Node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Place is where a device is on its host.
type Place struct {
	Root, Address string
	NUMA          int64 // -1 for none
}

// Slice publishes devices of a node.
func (d Driver) Slice(node string, devices []Place) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		TypeMeta:   typeMeta("ResourceSlice"),
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + d.Class},
	}

	s.Spec = resourceapi.ResourceSliceSpec{
		Driver:   d.Name,
		NodeName: &node,
		Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}

	for i, place := range devices {
		device := resourceapi.Device{
			Name:       fmt.Sprint(d.device, "-", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{},
		}

		numa := &place.NUMA
		if place.NUMA < 0 {
			numa = nil
		}

		for name, value := range d.attributes(place.Root, numa, place.Address) {
			switch v := value.(type) {
			case string:
				device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{
					StringValue: &v,
				}

			case []string:
				device.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{
					StringValues: v,
				}

			case *int64:
				if v != nil {
					device.Attributes[resourceapi.QualifiedName(
						name)] = resourceapi.DeviceAttribute{
						IntValue: v,
					}
				}
			}
		}

		s.Spec.Devices = append(s.Spec.Devices, device)
	}

	return s
}

// Host returns the GPUs and the NICs of a snapshot; of NICs with virtual functions these only.
func Host(t testing.TB, file string) (gpus, nics []Place) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	snapshot, err := host.ParseSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}

	read, problems := host.Read(snapshot, nil, host.All)
	if len(problems) > 0 {
		t.Fatal(problems)
	}

	for _, d := range read.Functions {
		place := Place{string(d.Root), d.Address.String(), -1}
		if n, isKnown := d.Node.Node(); isKnown {
			place.NUMA = int64(n)
		}

		hasFunctions := slices.ContainsFunc(read.Functions, func(f topology.Function) bool {
			return f.PhysFn != nil && *f.PhysFn == d.Address
		})

		switch {
		case d.IsGPU() && d.Vendor == 0x10de:
			gpus = append(gpus, place)
		case d.IsNIC() && !hasFunctions:
			nics = append(nics, place)
		}
	}

	return gpus, nics
}

// Allocated returns a claim that has devices of a slice.
func Allocated(
	name string, s *resourceapi.ResourceSlice, devices ...int,
) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{
		TypeMeta:   typeMeta("ResourceClaim"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ml", UID: types.UID(name)},
	}

	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, i := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{
				Request: "r", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name,
				Device: s.Spec.Devices[i].Name,
			})
	}

	return c
}

// YAML returns nodes of a snapshot with NVIDIA's GPUs and virtual functions of NICs, as YAML
// documents.
func YAML(t testing.TB, file string, nodes ...string) []byte {
	t.Helper()
	gpus, nics := Host(t, file)
	documents := []any{NVIDIA().DeviceClass(), SRIOV().DeviceClass()}
	for _, node := range nodes {
		documents = append(documents, NVIDIA().Slice(node, gpus), SRIOV().Slice(node, nics))
	}

	var all []byte
	for _, d := range documents {
		data, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "---\n"...), data...)
	}

	return all
}
