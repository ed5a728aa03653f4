package fit

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
)

// Shape is what one VM needs of a node.
type Shape struct {
	Name   string
	Claims []*resourceapi.ResourceClaim // of Dynamic Resource Allocation
	Needs  corev1.ResourceList          // CPUs, memory, huge pages, and resources of device plugins
	Pod    corev1.PodSpec               // its nodeSelector, affinity and tolerations
	Unread []string                     // what it needs beside, and is not counted

	Notes    []string                           // why a claim for numbers is not stricter
	template *resourceapi.ResourceClaimTemplate // for numbers
	refused  string                             // why no node would meet it if nothing ran
}

// NewShape returns what the one VM of the objects needs. The claims that it names are among
// them, too.
func NewShape(o Objects) (Shape, error) {
	if len(o.VMs) != 1 || o.VMs[0].Spec.Template == nil {
		return Shape{}, fmt.Errorf("read VM: %d VMs in the files, want 1, with a spec.template", len(o.VMs))
	}
	vm := o.VMs[0]
	s := Shape{Name: vm.Name, Needs: corev1.ResourceList{}}
	spec := vm.Spec.Template.Spec
	s.Pod = corev1.PodSpec{NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations}
	for _, entry := range spec.ResourceClaims {
		claim := o.claimOf(entry, vm.Namespace)
		if claim == nil {
			return s, fmt.Errorf("read VM %s: there is no unallocated claim or template for its resource claim %q", vm.Name, entry.Name)
		}
		s.Claims = append(s.Claims, claim)
	}
	for _, gpu := range spec.Domain.Devices.GPUs {
		need(s.Needs, corev1.ResourceName(gpu.DeviceName), resource.MustParse("1"))
	}
	for _, device := range spec.Domain.Devices.HostDevices {
		need(s.Needs, corev1.ResourceName(device.DeviceName), resource.MustParse("1"))
	}
	delete(s.Needs, "") // of devices that have a claim
	for _, nic := range spec.Domain.Devices.Interfaces {
		if nic.SRIOV != nil {
			s.Unread = append(s.Unread, "interface "+nic.Name+": its network attachment definition names the resource")
		}
	}
	if vm.Spec.Instancetype != nil {
		s.Unread = append(s.Unread, "CPUs and memory: they are in the VM's instancetype")
	}
	s.needDomain(spec.Domain)
	return s, nil
}

// need adds to a resource of a list.
func need(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	sum := list[name]
	sum.Add(q)
	list[name] = sum
}

// needDomain adds CPUs and memory as KubeVirt requests them, without its overhead
// (pkg/virt-controller/services/rendercontainer.go, renderresources.go). Of CPUs that are not
// dedicated it requests a tenth (pkg/virt-config, DefaultCPUAllocationRatio): they do not count.
func (s *Shape) needDomain(d v1.DomainSpec) {
	for name, q := range d.Resources.Requests {
		need(s.Needs, name, q)
	}
	if c := d.CPU; c != nil && c.DedicatedCPUPlacement {
		count := int64(max(c.Cores, 1)) * int64(max(c.Sockets, 1)) * int64(max(c.Threads, 1))
		if c.IsolateEmulatorThread {
			count++
		}
		s.Needs[corev1.ResourceCPU] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if m := d.Memory; m != nil && m.Guest != nil {
		s.Needs[corev1.ResourceMemory] = *m.Guest
	}
	if m := d.Memory; m != nil && m.Hugepages != nil {
		s.Needs[corev1.ResourceName(corev1.ResourceHugePagesPrefix+m.Hugepages.PageSize)] = s.Needs[corev1.ResourceMemory]
		delete(s.Needs, corev1.ResourceMemory)
	}
}

// claimOf returns the claim that an entry of a VM names, or that its template makes; nil
// without one, or where it is allocated: such a VM fits where its devices are.
func (o *Objects) claimOf(entry v1.VirtualMachineInstanceResourceClaim, namespace string) *resourceapi.ResourceClaim {
	isNamed := func(name *string, object metav1.ObjectMeta) bool { // a file may have no namespace
		return ptr.Deref(name, "") == object.Name && cmp.Or(object.Namespace, namespace) == cmp.Or(namespace, object.Namespace)
	}
	for _, c := range o.Claims {
		if isNamed(entry.ResourceClaimName, c.ObjectMeta) && c.Status.Allocation == nil {
			return completed(c.ObjectMeta, c.Spec)
		}
	}
	for _, t := range o.Templates {
		if isNamed(entry.ResourceClaimTemplateName, t.ObjectMeta) {
			return completed(t.ObjectMeta, t.Spec.Spec)
		}
	}
	return nil
}

// completed returns a claim with the defaults that the API server sets.
func completed(object metav1.ObjectMeta, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: object, Spec: *spec.DeepCopy()}
	for _, request := range c.Spec.Devices.Requests {
		if r := request.Exactly; r != nil {
			r.AllocationMode = cmp.Or(r.AllocationMode, resourceapi.DeviceAllocationModeExactCount)
			if r.AllocationMode == resourceapi.DeviceAllocationModeExactCount {
				r.Count = max(r.Count, 1)
			}
		}
	}
	return c
}
