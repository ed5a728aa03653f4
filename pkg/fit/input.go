package fit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/topology"
)

// Objects are objects of a cluster, by kind.
type Objects struct {
	Nodes     []*corev1.Node                       `json:"Node"`
	Pods      []*corev1.Pod                        `json:"Pod"`
	Slices    []*resourceapi.ResourceSlice         `json:"ResourceSlice"`
	Classes   []*resourceapi.DeviceClass           `json:"DeviceClass"`
	Claims    []*resourceapi.ResourceClaim         `json:"ResourceClaim"`
	Templates []*resourceapi.ResourceClaimTemplate `json:"ResourceClaimTemplate"`
	KubeVirts []*v1.KubeVirt                       `json:"KubeVirt"`
	VMs       []*v1.VirtualMachine                 `json:"VirtualMachine"`

	Hosts map[string]*topology.Host `json:"-"` // by node, of those that were read
	Held  map[string]string         `json:"-"` // the running VM that has a device, by node and PCI address with a space between them
}

// Parse reads files of YAML documents and lists, of which each item has a kind of its own or that of
// the list. Other kinds are ignored.
func Parse(files ...[]byte) (o Objects, err error) {
	kinds := map[string][]json.RawMessage{}
	for _, document := range bytes.Split(bytes.Join(files, []byte("\n---\n")), []byte("\n---")) {
		var list struct {
			metav1.TypeMeta
			Items []json.RawMessage
		}
		object, err := yaml.YAMLToJSON(document)
		if err = cmp.Or(err, json.Unmarshal(object, &list)); err != nil {
			return o, fmt.Errorf("parse objects: %w", err)
		}
		kind, isList := strings.CutSuffix(list.Kind, "List")
		if !isList {
			list.Items = []json.RawMessage{object}
		}
		for _, item := range list.Items {
			of := metav1.TypeMeta{Kind: kind, APIVersion: list.APIVersion}
			err := json.Unmarshal(item, &of)
			if err == nil && strings.HasPrefix(of.APIVersion, resourceapi.GroupName) && of.APIVersion != resourceapi.SchemeGroupVersion.String() {
				err = fmt.Errorf("%s is of %s, must be of %s", of.Kind, of.APIVersion, resourceapi.SchemeGroupVersion)
			}
			if err != nil {
				return o, fmt.Errorf("parse objects: %w", err)
			}
			kinds[of.Kind] = append(kinds[of.Kind], item)
		}
	}
	data, err := json.Marshal(kinds)
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	return o, err
}

// Shape has the devices, CPUs and memory that one VM needs, and the taints that it tolerates.
type Shape struct {
	Name        string
	Claims      []*resourceapi.ResourceClaim // of Dynamic Resource Allocation
	Devices     map[string]int               // of device plugins, by resource
	Needs       corev1.ResourceList          // CPUs, memory, huge pages, and the resources of Devices
	Tolerations []corev1.Toleration
}

// NewShape returns the shape of the one VM of the objects: CPUs and memory as KubeVirt requests
// them, without its overhead (pkg/virt-controller/services/rendercontainer.go, renderresources.go).
// Of CPUs that are not dedicated it requests a tenth, which does not count.
func NewShape(o Objects) (Shape, error) {
	if len(o.VMs) != 1 || o.VMs[0].Spec.Template == nil {
		return Shape{}, fmt.Errorf("read VM: %d VMs in the files, want 1, with a spec.template", len(o.VMs))
	}
	vm, spec := o.VMs[0], o.VMs[0].Spec.Template.Spec
	s := Shape{Name: vm.Name, Devices: map[string]int{}, Needs: corev1.ResourceList{}, Tolerations: spec.Tolerations}
	for _, entry := range spec.ResourceClaims {
		i := slices.IndexFunc(o.Templates, func(t *resourceapi.ResourceClaimTemplate) bool { // a file may have no namespace
			return t.Name == ptr.Deref(entry.ResourceClaimTemplateName, "") && (t.Namespace == vm.Namespace || t.Namespace == "" || vm.Namespace == "")
		})
		if i < 0 {
			return s, fmt.Errorf("read VM %s: no template was read for its resource claim %q", vm.Name, entry.Name)
		}
		claim := &resourceapi.ResourceClaim{ObjectMeta: o.Templates[i].ObjectMeta, Spec: o.Templates[i].Spec.Spec}
		if err := preset(claim.Spec.Devices.Requests); err != nil {
			return s, fmt.Errorf("read VM %s: %w", vm.Name, err)
		}
		s.Claims = append(s.Claims, claim)
	}
	maps.Copy(s.Needs, spec.Domain.Resources.Limits)
	maps.Copy(s.Needs, spec.Domain.Resources.Requests)
	for _, gpu := range spec.Domain.Devices.GPUs {
		s.Devices[gpu.DeviceName]++
	}
	for _, device := range spec.Domain.Devices.HostDevices {
		s.Devices[device.DeviceName]++
	}
	delete(s.Devices, "") // of devices that have a claim
	for name, count := range s.Devices {
		s.Needs[corev1.ResourceName(name)] = *resource.NewQuantity(int64(count), resource.DecimalSI)
	}
	c := ptr.Deref(spec.Domain.CPU, v1.CPU{})
	if c.DedicatedCPUPlacement && c.Cores+c.Sockets+c.Threads > 0 {
		s.Needs[corev1.ResourceCPU] = *resource.NewQuantity(int64(max(c.Cores, 1))*int64(max(c.Sockets, 1))*int64(max(c.Threads, 1)), resource.DecimalSI)
	}
	m := ptr.Deref(spec.Domain.Memory, v1.Memory{})
	if _, isRequested := s.Needs[corev1.ResourceMemory]; m.Guest != nil && (!isRequested || m.Hugepages != nil) {
		s.Needs[corev1.ResourceMemory] = *m.Guest
	}
	if m.Hugepages != nil {
		s.Needs[corev1.ResourceName(corev1.ResourceHugePagesPrefix+m.Hugepages.PageSize)] = s.Needs[corev1.ResourceMemory]
		delete(s.Needs, corev1.ResourceMemory)
	}
	return s, nil
}

// preset sets what requests in a file lack: defaults of the API server.
func preset(requests []resourceapi.DeviceRequest) error {
	set := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode != resourceapi.DeviceAllocationModeAll {
			*mode, *count = resourceapi.DeviceAllocationModeExactCount, max(*count, 1)
		}
	}
	for _, r := range requests {
		for i := range r.FirstAvailable {
			set(&r.FirstAvailable[i].AllocationMode, &r.FirstAvailable[i].Count)
		}
		switch {
		case r.Exactly != nil:
			set(&r.Exactly.AllocationMode, &r.Exactly.Count)
		case r.FirstAvailable == nil:
			return fmt.Errorf("request %s has neither exactly nor firstAvailable", r.Name)
		}
	}
	return nil
}

// Wish is a VM in numbers, for which there is no claim yet.
type Wish struct {
	GPUs, NICs         int
	GPUClass, NICClass string // DeviceClasses
	Pair               bool   // each GPU shares a PCIe root with its NIC
	OneSocket          bool   // all devices are of one NUMA node
}

// Count answers for the strictest claim of the wish that a node meets if nothing runs. It
// returns the claim and, as comments, why it is not stricter and a VM that uses it.
func (w Wish) Count(ctx context.Context, f *Fleet) (answer Answer, claim string, err error) {
	w.Pair = w.Pair && w.GPUs > 0 && w.NICs > 0
	pair, socket, loose := w, w, w
	pair.OneSocket, socket.Pair, loose.Pair, loose.OneSocket = false, false, false, false
	notes := []string{}
	for _, next := range slices.Compact([]Wish{w, pair, socket, loose}) {
		template, vm := text("claim", next), text("vm", next)
		o, err := Parse([]byte(template), []byte(vm))
		var shape Shape
		if err == nil {
			shape, err = NewShape(o)
		}
		if err == nil {
			shape.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			answer, err = f.Count(ctx, shape)
		}
		answer.Notes = notes
		if err != nil || answer.Empty > 0 {
			return answer, text("comment", answer) + template + "# " + strings.ReplaceAll(vm, "\n", "\n# ") + "\n", err
		}
		if i := slices.IndexFunc(answer.Nodes, func(n Node) bool { return len(n.Devices) > 0 }); i >= 0 { // one is enough
			notes = append(notes, fmt.Sprintf("pair=%t and one-socket=%t cannot be met: on node %s %s", next.Pair, next.OneSocket, answer.Nodes[i].Name, answer.Nodes[i].Why))
		}
	}
	answer.Notes = notes
	return answer, "", nil
}
