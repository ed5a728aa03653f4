package why

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hook-sidecar/pkg/kubevirt"
)

// object is a pod, a node, an event, a list of these, or of a VM and a VMI what they have in common
// with them: metadata and conditions. A field that does not fit its type is left out.
type object struct {
	corev1.Event
	Msg   string // of a line of a log, which may have a kind, too
	Items []json.RawMessage
	Spec  struct {
		NodeName      string
		Containers    []corev1.Container
		Unschedulable bool
		Taints        []corev1.Taint
		NodeSelector  map[string]string
		Configuration struct{ PermittedHostDevices permitted }
	}
	Status struct {
		corev1.PodStatus
		Capacity, Allocatable corev1.ResourceList
		NodeInfo              struct{ KernelVersion string }
	}
}

// isEnded reports whether an object is a pod that ended, or will soon.
func (o object) isEnded() bool {
	isOver := o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded
	return o.Kind == "Pod" && (isOver || o.DeletionTimestamp != nil)
}

// isReady reports whether a pod is ready, as far as it says so.
func (o object) isReady() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}

	isUnready := func(c corev1.ContainerStatus) bool { return !c.Ready }
	return o.Status.Phase == corev1.PodRunning && !o.isEnded() &&
		!slices.ContainsFunc(o.Status.ContainerStatuses, isUnready)
}

// closed returns what keeps pods from a node, beside what it has.
func (o object) closed() (text string) {
	if o.Spec.Unschedulable {
		text = "; it is cordoned"
	}

	for _, t := range o.Spec.Taints {
		isCordon := t.Key == corev1.TaintNodeUnschedulable
		if !isCordon && t.Effect != corev1.TaintEffectPreferNoSchedule {
			text += fmt.Sprintf("; it has the taint %s", t.ToString())
		}
	}

	return text
}

// kubeVirtState is a VM or a VMI as it was read.
type kubeVirtState struct {
	kubevirt.Object
	running
	conditions []corev1.PodCondition
	isDeleted  bool
	finalizers []string
}

// stateOf returns a VM or a VMI as it was read.
func stateOf(o object, data []byte) *kubeVirtState {
	return &kubeVirtState{
		Object:     kubevirt.ParseObject(data),
		running:    parseRunning(data),
		conditions: o.Status.Conditions,
		isDeleted:  o.DeletionTimestamp != nil,
		finalizers: o.Finalizers,
	}
}

// running has the fields of a VMI that say what a drain does with it, and which interfaces and
// volumes it has (KubeVirt staging/src/kubevirt.io/api/core/v1/types.go).
type running struct {
	evictionStrategy string
	interfaces       []attached
	volumes          []volumeStatus
}

// attached is an interface in the status of a VMI: infoSource says who reported it.
type attached struct{ Name, InfoSource string }

// volumeStatus is how far a volume is; one that is attached to a VM that runs names the pod for
// it.
type volumeStatus struct {
	Name, Phase   string
	HotplugVolume *struct{ AttachPodName string }
}

// parseRunning reads the fields as far as they fit.
func parseRunning(data []byte) running {
	var o struct {
		Spec   struct{ EvictionStrategy string }
		Status struct {
			Interfaces   []attached
			VolumeStatus []volumeStatus
		}
	}
	json.Unmarshal(data, &o) // goes on after a field of a wrong type
	return running{o.Spec.EvictionStrategy, o.Status.Interfaces, o.Status.VolumeStatus}
}

// permitted are the devices that the KubeVirt object permits (KubeVirt
// staging/src/kubevirt.io/api/core/v1/types.go, PermittedHostDevices).
type permitted struct {
	PCIHostDevices  []permittedDevice
	MediatedDevices []permittedDevice
}

type permittedDevice struct {
	PCIVendorSelector, MDEVNameSelector, ResourceName string
	ExternalResourceProvider                          bool
}

// isExternal reports whether another program than virt-handler offers a resource.
func (p *permitted) isExternal(name corev1.ResourceName) bool {
	return p != nil && slices.ContainsFunc(slices.Concat(p.PCIHostDevices, p.MediatedDevices),
		func(d permittedDevice) bool {
			return d.ResourceName == string(name) && d.ExternalResourceProvider
		})
}

// related is an object that may say why the VM waits, without being its own. Kinds that are not
// named in relatedKinds are not kept.
type related struct {
	metav1.ObjectMeta
	data []byte
}

// keptOff returns what keeps the pods of a DaemonSet off a node; "" if nothing does that is known.
// The taints of a node's conditions and of its cordon keep no pod of a DaemonSet off (Kubernetes
// pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations).
func (r related) keptOff(node object) string {
	var set daemonSet
	json.Unmarshal(r.data, &set) // goes on after a field of a wrong type
	spec := set.Spec.Template.Spec
	for _, t := range node.Spec.Taints {
		isTolerated := func(by corev1.Toleration) bool { return tolerates(by, t) }
		isOwn := strings.HasPrefix(t.Key, "node.kubernetes.io/")
		if !isOwn && t.Effect != corev1.TaintEffectPreferNoSchedule &&
			!slices.ContainsFunc(spec.Tolerations, isTolerated) {
			return fmt.Sprintf("its DaemonSet does not tolerate the taint %s:%s there", t.Key,
				t.Effect)
		}
	}

	for _, label := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if value := spec.NodeSelector[label]; node.Labels[label] != value {
			return fmt.Sprintf("its DaemonSet selects nodes with the label %s, which is not %s there",
				label, value)
		}
	}

	return ""
}

// daemonSet has the fields of a DaemonSet that say on which nodes its pods run.
type daemonSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				NodeSelector map[string]string
				Tolerations  []corev1.Toleration
			}
		}
	}
}

// tolerates reports whether a toleration is for a taint (Kubernetes
// staging/src/k8s.io/api/core/v1/toleration.go, ToleratesTaint).
func tolerates(by corev1.Toleration, t corev1.Taint) bool {
	isValue := by.Operator == corev1.TolerationOpExists || by.Value == t.Value
	isKey := by.Key == t.Key || by.Key == "" && by.Operator == corev1.TolerationOpExists
	return isKey && isValue && (by.Effect == "" || by.Effect == t.Effect)
}

// warning is an event that warns about an object that is not the VM's.
type warning struct {
	about corev1.ObjectReference
	text  string // its reason and its message
}

// nodeNetworks is a failure that the SR-IOV operator's daemon reports of a node. The object has the
// node's name (sriov-network-operator api/v1/sriovnetworknodestate_types.go).
type nodeNetworks struct{ node, failure string }
