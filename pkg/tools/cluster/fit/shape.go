package fit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

// Shape lists the claims, devices and resources that one VM requests of a node.
type Shape struct {
	Name    string
	Claims  []*resourceapi.ResourceClaim // of Dynamic Resource Allocation
	Devices map[string]int               // of device plugins, by resource
	Needs   corev1.ResourceList          // CPUs, memory, huge pages, and the resources of Devices
	// node selector, affinity and tolerations, which KubeVirt copies
	Pod    corev1.PodSpec
	Labels map[string]string // that KubeVirt demands of the node beside those of Pod
	Notes  []string          // what the VM asks for that is not counted

	isOnce bool // a claim is named: only one VM at a time can have its devices
}

// NewShape returns the shape of the one VM of the objects: CPUs and memory as KubeVirt requests
// them, without its overhead (pkg/virt-controller/services/rendercontainer.go, renderresources.go).
// Of CPUs that are not dedicated it requests a tenth, which does not count. A VM that requests
// nothing is refused.
func NewShape(o Objects) (Shape, error) {
	vm, err := o.vm()
	if err != nil {
		return Shape{}, fmt.Errorf("read VM: %w", err)
	}

	spec := vm.Spec.Template.Spec
	s := Shape{
		Name:    vm.Name,
		Devices: devicesOf(spec),
		Needs:   needsOf(spec),
		Pod: corev1.PodSpec{
			NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		},
		Labels: labelsOf(spec),
		Notes:  uncounted(vm),
	}

	for name, count := range s.Devices {
		s.Needs[corev1.ResourceName(name)] = *resource.NewQuantity(int64(count), resource.DecimalSI)
	}

	if err = s.addClaims(vm, o); err != nil {
		return s, fmt.Errorf("read VM %s: %w", vm.Name, err)
	}

	if len(s.Needs) == 0 && !takesDevices(s.Claims) {
		return s,
			reasons.WithHint("name its devices in spec.template.spec.domain.devices or its "+
				"claims, or its CPUs and memory",
				fmt.Errorf("read VM %s: %w", vm.Name, errNothing))
	}

	return s, nil
}

// vm returns the one VM of the objects. A VMI counts as the VM that would make it.
func (o *Objects) vm() (*v1.VirtualMachine, error) {
	switch {
	case len(o.VMs) == 1 && o.VMs[0].Spec.Template == nil:
		return nil, fmt.Errorf("VM %s has no spec.template", o.VMs[0].Name)
	case len(o.VMs) == 1:
		return o.VMs[0], nil
	case len(o.VMs) == 0 && len(o.VMIs) == 1:
		i := o.VMIs[0]
		return &v1.VirtualMachine{
			ObjectMeta: i.ObjectMeta,
			Spec: v1.VirtualMachineSpec{
				Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: i.Spec},
			},
		}, nil
	case len(o.VMs)+len(o.VMIs) > 1:
		return nil, fmt.Errorf("%d VMs in the files, want 1", max(len(o.VMs), len(o.VMIs)))
	}

	err := errors.New("the files have no VirtualMachine and no VirtualMachineInstance")
	if kinds := slices.Sorted(maps.Keys(o.ignored)); len(kinds) > 0 {
		err = fmt.Errorf("%w; other objects in them are of kind %s", err,
			words.FirstOf(kinds, 10, ", "))
	}

	return nil, err
}

var errNothing = errors.New("it requests no devices, dedicated CPUs or memory, so any number " +
	"would fit")

// devicesOf counts the devices of device plugins, by resource.
func devicesOf(spec v1.VirtualMachineInstanceSpec) map[string]int {
	devices := map[string]int{}
	for _, gpu := range spec.Domain.Devices.GPUs {
		devices[gpu.DeviceName]++
	}

	for _, device := range spec.Domain.Devices.HostDevices {
		devices[device.DeviceName]++
	}

	delete(devices, "") // of devices that have a claim
	return devices
}

// needsOf returns the CPUs, the memory and the huge pages that a VM requests.
func needsOf(spec v1.VirtualMachineInstanceSpec) corev1.ResourceList {
	needs := corev1.ResourceList{}
	maps.Copy(needs, spec.Domain.Resources.Limits)
	maps.Copy(needs, spec.Domain.Resources.Requests)

	c := ptr.Deref(spec.Domain.CPU, v1.CPU{})
	if c.DedicatedCPUPlacement && c.Cores+c.Sockets+c.Threads > 0 {
		cpus := int64(max(c.Cores, 1)) * int64(max(c.Sockets, 1)) * int64(max(c.Threads, 1))
		needs[corev1.ResourceCPU] = *resource.NewQuantity(cpus, resource.DecimalSI)
	}

	m := ptr.Deref(spec.Domain.Memory, v1.Memory{})
	if _, isRequested := needs[corev1.ResourceMemory]; m.Guest != nil &&
		(!isRequested || m.Hugepages != nil) {
		needs[corev1.ResourceMemory] = *m.Guest
	}

	if m.Hugepages != nil {
		needs[corev1.ResourceName(corev1.ResourceHugePagesPrefix+
			m.Hugepages.PageSize)] = needs[corev1.ResourceMemory]
		delete(needs, corev1.ResourceMemory)
	}

	maps.DeleteFunc(needs, func(_ corev1.ResourceName, q resource.Quantity) bool {
		return q.Sign() <= 0
	})

	return needs
}

// labelsOf returns the labels that KubeVirt adds to the pod's node selector, of those that do not
// depend on the CPU model (pkg/virt-controller/services/nodeselectorrenderer.go).
func labelsOf(spec v1.VirtualMachineInstanceSpec) map[string]string {
	labels := map[string]string{v1.NodeSchedulable: "true"}
	if ptr.Deref(spec.Domain.CPU, v1.CPU{}).DedicatedCPUPlacement {
		// by KubeVirt's version
		labels[v1.CPUManager], labels[v1.DeprecatedCPUManager] = "true", "true"
	}

	if spec.Architecture != "" {
		labels[corev1.LabelArchStable] = spec.Architecture
	}

	return labels
}

// uncounted says what a VM asks for that is not counted.
func uncounted(vm *v1.VirtualMachine) (notes []string) {
	if i := vm.Spec.Instancetype; i != nil {
		notes = append(notes,
			fmt.Sprintf("not counted: the CPUs, memory and devices of instance type %s", i.Name))
	}

	spec := vm.Spec.Template.Spec
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		notes = append(notes, "not counted: the VM's affinity to other pods")
	}

	if len(spec.TopologySpreadConstraints) > 0 {
		notes = append(notes, "not counted: the VM's topology spread constraints")
	}

	return notes
}

// addClaims adds the claims of a VM: those that are made of templates for each VM, and those that it
// names, which it shares with every VM that names them.
func (s *Shape) addClaims(vm *v1.VirtualMachine, o Objects) error {
	for _, entry := range vm.Spec.Template.Spec.ResourceClaims {
		claim, err := o.claim(vm.Namespace, entry)
		if err != nil {
			return err
		}

		if err := preset(claim.Spec.Devices.Requests); err != nil {
			return err
		}

		s.Claims = append(s.Claims, claim)
		if entry.ResourceClaimName != nil && !s.isOnce {
			s.isOnce = true
			s.Notes = append(s.Notes, fmt.Sprintf("claim %s is named, not made of a template: "+
				"one VM at a time can have its devices", claim.Name))
		}
	}

	return nil
}

// claim returns the claim of a VM of a namespace, made of its template or the one that it names.
func (o *Objects) claim(
	namespace string, entry v1.VirtualMachineInstanceResourceClaim,
) (*resourceapi.ResourceClaim, error) {
	if name := ptr.Deref(entry.ResourceClaimName, ""); name != "" {
		if claim := named(o.Claims, namespace, name); claim != nil {
			return claim.DeepCopy(), nil
		}
		return nil, fmt.Errorf("ResourceClaim %q of its resource claim %q was not read",
			words.Abridge(name), entry.Name)
	}

	template := named(o.Templates, namespace, ptr.Deref(entry.ResourceClaimTemplateName, ""))
	if template == nil {
		return nil, fmt.Errorf("no template was read for its resource claim %q", entry.Name)
	}

	return &resourceapi.ResourceClaim{
		ObjectMeta: template.ObjectMeta, Spec: *template.Spec.Spec.DeepCopy(),
	}, nil
}

// named returns the object of a name for a VM of a namespace, nil without one. Objects of a file
// may have no namespace.
func named[T metav1.Object](objects []T, namespace, name string) (found T) {
	for _, o := range objects {
		if o.GetName() == name &&
			cmp.Or(o.GetNamespace(), namespace) == cmp.Or(namespace, o.GetNamespace()) {
			return o
		}
	}

	return found
}
