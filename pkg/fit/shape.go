package fit

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
)

// Shape is what one VM needs of a node.
type Shape struct {
	Name   string
	Claims []*resourceapi.ResourceClaim // of Dynamic Resource Allocation
	Needs  corev1.ResourceList          // CPUs, memory, huge pages, and resources of device plugins
	Pod    corev1.PodSpec               // its nodeSelector, affinity and tolerations
	Unread []string                     // what it needs beside, and is not counted

	Template string   // the claim as a ResourceClaimTemplate, of a shape in numbers
	Notes    []string // why it is not stricter
	refused  string   // why no node would meet it if nothing ran
}

// NewShape returns what a VM needs. The claims that it names are among the objects.
func NewShape(vm *v1.VirtualMachine, o Objects) (Shape, error) {
	s := Shape{Name: vm.Name, Needs: corev1.ResourceList{}}
	if vm.Spec.Template == nil {
		return s, fmt.Errorf("read VM %s: it has no spec.template", vm.Name)
	}
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
		s.need(corev1.ResourceName(gpu.DeviceName), *resource.NewQuantity(1, resource.DecimalSI))
	}
	for _, device := range spec.Domain.Devices.HostDevices {
		s.need(corev1.ResourceName(device.DeviceName), *resource.NewQuantity(1, resource.DecimalSI))
	}
	for _, nic := range spec.Domain.Devices.Interfaces {
		if nic.SRIOV != nil {
			s.Unread = append(s.Unread, "interface "+nic.Name+": its network attachment definition names the resource")
		}
	}
	if vm.Spec.Instancetype != nil {
		s.Unread = append(s.Unread, "CPUs and memory: they are in the VM's instancetype")
	}
	s.needResources(spec.Domain)
	return s, nil
}

// need adds to a resource. A device without a resource has a claim.
func (s *Shape) need(name corev1.ResourceName, q resource.Quantity) {
	if name != "" {
		sum := s.Needs[name]
		sum.Add(q)
		s.Needs[name] = sum
	}
}

// cpuShare is the part of a CPU that KubeVirt requests for one that is not dedicated
// (pkg/virt-config, DefaultCPUAllocationRatio), in thousandths.
const cpuShare = 100

// needResources adds CPUs and memory as KubeVirt requests them, without its overhead
// (pkg/virt-controller/services/rendercontainer.go, renderresources.go).
func (s *Shape) needResources(d v1.DomainSpec) {
	for name, q := range d.Resources.Requests {
		s.need(name, q)
	}
	if c := d.CPU; c != nil {
		count := int64(max(c.Cores, 1)) * int64(max(c.Sockets, 1)) * int64(max(c.Threads, 1))
		if c.IsolateEmulatorThread {
			count++
		}
		_, isRequested := s.Needs[corev1.ResourceCPU]
		switch {
		case c.DedicatedCPUPlacement:
			s.Needs[corev1.ResourceCPU] = *resource.NewQuantity(count, resource.DecimalSI)
		case !isRequested:
			s.need(corev1.ResourceCPU, *resource.NewMilliQuantity(count*cpuShare, resource.DecimalSI))
		}
	}
	memory := s.Needs[corev1.ResourceMemory]
	if d.Memory != nil && d.Memory.Guest != nil {
		memory = *d.Memory.Guest
	}
	name := corev1.ResourceMemory
	if d.Memory != nil && d.Memory.Hugepages != nil {
		delete(s.Needs, name)
		name = corev1.ResourceName(corev1.ResourceHugePagesPrefix + d.Memory.Hugepages.PageSize)
	}
	s.Needs[name] = memory
}

// claimOf returns the claim that an entry of a VM names, or that its template makes; nil
// without one, or where it is allocated: such a VM fits where its devices are.
func (o *Objects) claimOf(entry v1.VirtualMachineInstanceResourceClaim, namespace string) *resourceapi.ResourceClaim {
	isNamed := func(name *string, object metav1.ObjectMeta) bool { // a file may have no namespace
		return name != nil && *name == object.Name && cmp.Or(object.Namespace, namespace) == cmp.Or(namespace, object.Namespace)
	}
	for _, c := range o.Claims {
		if isNamed(entry.ResourceClaimName, c.ObjectMeta) && c.Status.Allocation == nil {
			return completed(c)
		}
	}
	for _, t := range o.Templates {
		if isNamed(entry.ResourceClaimTemplateName, t.ObjectMeta) {
			return completed(&resourceapi.ResourceClaim{Spec: t.Spec.Spec})
		}
	}
	return nil
}

// completed returns a claim with the defaults that the API server sets.
func completed(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	c = c.DeepCopy()
	for i := range c.Spec.Devices.Requests {
		if r := c.Spec.Devices.Requests[i].Exactly; r != nil {
			r.AllocationMode = cmp.Or(r.AllocationMode, resourceapi.DeviceAllocationModeExactCount)
			if r.AllocationMode == resourceapi.DeviceAllocationModeExactCount {
				r.Count = max(r.Count, 1)
			}
		}
	}
	return c
}
