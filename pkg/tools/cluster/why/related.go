package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects that a VM waits for, or that refuse it, without being its own: claims and their volumes,
// what fills them, budgets, the DaemonSets of what a node needs and the pods of a service. Each is
// read for what it says of itself.

// related is such an object. Kinds that are not named in relatedKinds are not kept.
type related struct {
	metav1.ObjectMeta
	data []byte
}

// relatedKinds are the kinds of these objects, but for pods, which all are kept.
var relatedKinds = []string{
	"PersistentVolumeClaim", "PersistentVolume", "DataVolume", "PodDisruptionBudget", "DaemonSet",
	"VirtualMachineInstanceMigration", "ResourceQuota", "VirtualMachineRestore",
	"ResourceClaim",
}

// addRelated keeps an object that may say why the VM waits.
func (e *Evidence) addRelated(o object, data []byte) {
	if !slices.Contains(relatedKinds, o.Kind) {
		return
	}
	if e.related == nil {
		e.related = map[string][]related{}
	}
	e.related[o.Kind] = append(e.related[o.Kind], related{o.ObjectMeta, slices.Clone(data)})
}

// find returns an object of a kind by its namespace and name; nil if it was not read. Objects
// without a namespace, and VMs without one, match any.
func (e *Evidence) find(kind, namespace, name string) *related {
	for i, o := range e.related[kind] {
		isThere := namespace == "" || o.Namespace == "" || o.Namespace == namespace
		if o.Name == name && isThere {
			return &e.related[kind][i]
		}
	}
	return nil
}

// namespace returns the VM's namespace, also where files alone name it.
func (e *Evidence) namespace() string {
	for _, pod := range e.pods {
		if e.Namespace == "" && e.isOwn("Pod", pod.Namespace, pod.Name) {
			return pod.Namespace
		}
	}
	return e.Namespace
}

// trouble returns why a pod does not do its work, by its own state and events; "" if it does, or
// only starts.
func (e *Evidence) trouble(pod object) string {
	about := fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name)
	warned := e.warningAbout("Pod", pod.Namespace, pod.Name)
	isPending, starting := pod.Status.Phase == corev1.PodPending, ""
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range statuses {
		waiting := c.State.Waiting
		switch {
		case waiting == nil:
		case waiting.Reason == "PodInitializing" || waiting.Reason == "ContainerCreating":
			starting = cmp.Or(starting, waiting.Reason)
		default:
			text := fmt.Sprintf("container %s of %s is in %s", c.Name, about, waiting.Reason)
			if c.RestartCount > 0 {
				text += fmt.Sprintf(" after %d restarts", c.RestartCount)
			}
			return strings.TrimSuffix(text+": "+cmp.Or(lastWords(c), waiting.Message), ": ")
		}
	}

	for _, c := range pod.Status.InitContainerStatuses {
		if isPending && c.State.Running != nil {
			return fmt.Sprintf("%s waits in its init container %s", about, c.Name)
		}
	}

	if isPending && (starting != "" || len(pod.Status.ContainerStatuses) == 0) && warned != "" {
		return fmt.Sprintf("%s has not started (%s): %s", about, cmp.Or(starting, "Pending"), warned)
	}

	for _, c := range pod.Status.Conditions {
		if isPending && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s has no node: %s", about, c.Message)
		}
	}

	if pod.Status.Phase == corev1.PodFailed {
		return strings.TrimSuffix(fmt.Sprintf("%s failed: %s: %s", about, pod.Status.Reason,
			pod.Status.Message), ": ")
	}

	return ""
}

// warningAbout returns what the last event says that warns about an object; "" if none does.
func (e *Evidence) warningAbout(kind, namespace, name string) string {
	for _, w := range slices.Backward(e.warnings) {
		if w.about.Kind == kind && w.about.Namespace == namespace && w.about.Name == name {
			return w.text
		}
	}
	return ""
}

// lastWords returns what a container said when it ended last; "" if it did not.
func lastWords(c corev1.ContainerStatus) string {
	if ended := c.LastTerminationState.Terminated; ended != nil {
		return strings.TrimSpace(ended.Message)
	}
	return ""
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

// tolerates reports whether a toleration is for a taint (Kubernetes
// staging/src/k8s.io/api/core/v1/toleration.go, ToleratesTaint).
func tolerates(by corev1.Toleration, t corev1.Taint) bool {
	isValue := by.Operator == corev1.TolerationOpExists || by.Value == t.Value
	isKey := by.Key == t.Key || by.Key == "" && by.Operator == corev1.TolerationOpExists
	return isKey && isValue && (by.Effect == "" || by.Effect == t.Effect)
}
