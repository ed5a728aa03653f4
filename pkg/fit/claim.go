package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/topology"
)

// Wish is a shape in numbers, for which there is no claim yet.
type Wish struct {
	GPUs, NICs         int
	GPUClass, NICClass string // a DeviceClass, or a resource of a device plugin: it has a slash
	Pair               string // which devices share a PCIe root, one of Pairings
	OneSocket          bool   // all devices are of one NUMA node
}

// The pairings.
const (
	PairAuto = "auto" // as root, where a node can meet it
	PairRoot = "root" // each GPU and its NIC: one constraint per pair
	PairAll  = "all"  // all GPUs and NICs: one constraint
	PairNone = "none"
)

// Pairings returns the pairings.
func Pairings() []string { return []string{PairAuto, PairRoot, PairAll, PairNone} }

// Shape returns the wish as a shape. What has a DeviceClass is in one claim. With PairAuto it
// is the strictest that a node could meet if nothing ran, as the scheduler's allocator says;
// notes say why it is not stricter.
func (w Wish) Shape(ctx context.Context, f *Fleet) Shape {
	s := Shape{
		Name: wanted{w.GPUClass: w.GPUs, w.NICClass: w.NICs}.String(), Needs: corev1.ResourceList{},
		Pod:    corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
		Unread: []string{"CPUs, memory and taints: pass a VM with -f"},
	}
	if strings.Contains(w.GPUClass, "/") {
		need(s.Needs, corev1.ResourceName(w.GPUClass), *resource.NewQuantity(int64(w.GPUs), resource.DecimalSI))
		w.GPUs = 0
	}
	if strings.Contains(w.NICClass, "/") {
		need(s.Needs, corev1.ResourceName(w.NICClass), *resource.NewQuantity(int64(w.NICs), resource.DecimalSI))
		w.NICs = 0
	}
	if w.GPUs+w.NICs == 0 {
		return s
	}
	type try struct {
		pair      string
		oneSocket bool
	}
	tries := []try{{w.Pair, w.OneSocket}}
	if w.Pair == PairAuto {
		tries = slices.Compact([]try{{PairRoot, w.OneSocket}, {PairRoot, false}, {PairNone, w.OneSocket}, {PairNone, false}})
	}
	for _, next := range tries {
		w.Pair, w.OneSocket = next.pair, next.oneSocket
		if s.refused != "" {
			s.Notes = append(s.Notes, s.refused)
		}
		s.template = w.template()
		s.Claims = []*resourceapi.ResourceClaim{completed(s.template.ObjectMeta, s.template.Spec.Spec)}
		s.refused = f.refusal(ctx, s.Claims)
		if s.refused == "" {
			break
		}
		s.refused = fmt.Sprintf("a claim with pair=%s and one-socket=%t cannot be met: %s", w.Pair, w.OneSocket, s.refused)
	}
	return s
}

// refusal returns why no node would meet claims if nothing ran, "" where one would.
func (f *Fleet) refusal(ctx context.Context, claims []*resourceapi.ResourceClaim) string {
	refused := "no node has devices"
	for _, of := range f.nodes {
		n := f.node(of).emptied()
		_, why := n.allocate(ctx, claims, n.used())
		if why == "" {
			return ""
		}
		if len(n.devices) > 0 {
			refused = fmt.Sprintf("on node %s %s", n.Name, why)
		}
	}
	return refused
}

// NVIDIA's class for passthrough, and the configuration that KubeVirt needs with it
// (kubevirt/user-guide docs/compute/dra_gpu.md).
const (
	nvidiaClass  = "vfio.gpu.nvidia.com"
	nvidiaConfig = `{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "VfioDeviceConfig", "iommu": {"backendPolicy": "LegacyOnly", "enableAPIDevice": true}}`
)

// template returns the ResourceClaimTemplate with a request per device. A GPU's NIC is after
// it: the allocator goes back one request at a time, and finds at once that a pair does not
// match.
func (w Wish) template() *resourceapi.ResourceClaimTemplate {
	var devices resourceapi.DeviceClaim
	var names, gpus []string
	add := func(name, class string) {
		names = append(names, name)
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}})
	}
	match := func(attribute resourceapi.FullyQualifiedName, requests ...string) {
		devices.Constraints = append(devices.Constraints, resourceapi.DeviceConstraint{MatchAttribute: &attribute, Requests: requests})
	}
	for i := range max(w.GPUs, w.NICs) {
		gpu, nic := fmt.Sprint("gpu", i), fmt.Sprint("nic", i)
		if i < w.GPUs {
			add(gpu, w.GPUClass)
			gpus = append(gpus, gpu)
		}
		if i < w.NICs {
			add(nic, w.NICClass)
		}
		if w.Pair == PairRoot && i < min(w.GPUs, w.NICs) {
			match("resource.kubernetes.io/pcieRoot", gpu, nic)
		}
	}
	if w.Pair == PairAll {
		match("resource.kubernetes.io/pcieRoot", names...)
	}
	if w.OneSocket {
		match("resource.kubernetes.io/numaNode", names...)
	}
	if w.GPUClass == nvidiaClass && w.GPUs > 0 {
		config := resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.nvidia.com", Parameters: runtime.RawExtension{Raw: []byte(nvidiaConfig)}}
		devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: gpus, DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &config}}}
	}
	return &resourceapi.ResourceClaimTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpus-%d-nics-%d", w.GPUs, w.NICs)},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: devices}},
	}
}

// Claim writes the ResourceClaimTemplate of a shape in numbers, with its notes, and as a
// comment the fields of a VM's spec that use it, so that kubectl apply takes all of it. That
// no node would meet it if nothing ran is an error.
func (s Shape) Claim(b *bytes.Buffer) error {
	switch {
	case s.template == nil:
		return errors.New("write a claim: a device plugin's resource has none")
	case s.refused != "":
		return fmt.Errorf("write a claim for %s: %s", s.Name, s.refused)
	}
	devices := map[string][]map[string]string{}
	for _, r := range s.template.Spec.Spec.Devices.Requests {
		list := "hostDevices"
		if strings.HasPrefix(r.Name, "gpu") {
			list = "gpus"
		}
		devices[list] = append(devices[list], map[string]string{"name": r.Name, "claimName": "devices", "requestName": r.Name})
	}
	vm, err := yaml.Marshal(map[string]any{
		"resourceClaims": []map[string]string{{"name": "devices", "resourceClaimTemplateName": s.template.Name}},
		"domain":         map[string]any{"devices": devices},
	})
	if err != nil {
		return err
	}
	template, err := yaml.Marshal(s.template)
	if err != nil {
		return err
	}
	for _, line := range append([]string{s.Name}, s.Notes...) {
		fmt.Fprintf(b, "# %s\n", topology.Printable(line))
	}
	fmt.Fprintf(b, "%s# In the VM's spec.template.spec:\n", template)
	for line := range strings.Lines(string(vm)) {
		b.WriteString("#   " + line)
	}
	return nil
}
