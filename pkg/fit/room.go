package fit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// room returns how often a VM fits on the node but for its claims, up to mostVMs, and what
// limits it.
func (n *node) room(s Shape) (int, string) {
	if why := n.excluded(s); why != "" {
		return 0, why
	}
	if n.Status.Allocatable == nil {
		return mostVMs, "" // the node was not read
	}
	room, why := mostVMs, ""
	for _, name := range slices.Sorted(maps.Keys(s.Needs)) {
		need, left := s.Needs[name], n.Status.Allocatable[name].DeepCopy()
		left.Sub(n.requested[n.Name][name])
		if need.IsZero() {
			continue
		}
		if times := int(left.AsApproximateFloat64() / need.AsApproximateFloat64()); times < room {
			room, why = max(times, 0), fmt.Sprintf("%s of %s are free, and %s are needed", left.String(), name, need.String())
		}
	}
	return room, why
}

// excluded returns why the scheduler leaves the node out.
func (n *node) excluded(s Shape) string {
	if n.Spec.Unschedulable {
		return "it is cordoned"
	}
	for _, t := range n.Spec.Taints {
		isHard := t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != corev1.TaintNodeUnschedulable
		if isHard && !scheduling.TolerationsTolerateTaint(klog.Background(), s.Pod.Tolerations, &t, true) {
			return "the VM does not tolerate its taint " + t.ToString()
		}
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: s.Pod}).Match(n.Node)
	if err != nil || !matches {
		return "the VM's nodeSelector or affinity leaves it out"
	}
	return ""
}
