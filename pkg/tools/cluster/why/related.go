package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Objects that a VM waits for, or that refuse it, without being its own: claims and their volumes,
// what fills them, budgets, the DaemonSets of what a node needs and the pods of a service. Each is
// read for what it says of itself.

// relatedKinds are the kinds of these objects, but for pods, which all are kept.
var relatedKinds = []string{
	"PersistentVolumeClaim", "PersistentVolume", "DataVolume", "PodDisruptionBudget", "DaemonSet",
	"VirtualMachineInstanceMigration", "ResourceQuota", "VirtualMachineRestore",
	"ResourceClaim",
}

// addWarning adds an event about an object that is not the VM's, if it warns.
func (e *Evidence) addWarning(o object) {
	about := o.InvolvedObject
	isOther := !strings.HasPrefix(about.Name, launcherPrefix)
	if o.Type == corev1.EventTypeWarning && isOther &&
		(about.Kind == "Pod" || slices.Contains(relatedKinds, about.Kind)) {
		e.warnings = append(e.warnings, warning{about, o.Reason + ": " + o.Message})
	}
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
