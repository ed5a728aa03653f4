package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	v1 "kubevirt.io/api/core/v1"
)

// room returns how often a VM fits on the node, its claims aside, and what limits it.
func (n *node) room(s Shape, isEmpty bool) (int, string) {
	why := n.refuses(s)
	if why == "" && !isEmpty {
		why = n.unavailable()
	}

	if why != "" {
		return 0, why
	}

	room := math.MaxInt
	for _, name := range slices.Sorted(maps.Keys(s.Needs)) {
		if times, limit := n.times(name, s.Needs[name], isEmpty); times < room {
			room, why = times, limit
		}
	}

	if _, isKnown := n.Status.Allocatable[corev1.ResourcePods]; isKnown {
		if left := n.left(corev1.ResourcePods, isEmpty); int(left) < room {
			room, why = int(left), "it has no room for another pod"
		}
	}

	return room, why
}

// refuses says why the scheduler never puts the VM on the node, "" where it may.
func (n *node) refuses(s Shape) string {
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: s.Pod})
	if matches, err := affinity.Match(n.Node); err != nil {
		return "the VM's node affinity: " + err.Error()
	} else if !matches {
		return n.unmatched(s)
	}

	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		value, isSet := n.Labels[key]
		switch {
		case !isSet && !n.labels[key]: // on no node: KubeVirt's version does not set it, or not yet
		case key == v1.NodeSchedulable && isSet: // see unavailable
		case !isSet:
			return fmt.Sprintf("it lacks the label %s=%s, which KubeVirt demands", key,
				s.Labels[key])

		case value != s.Labels[key]:
			return fmt.Sprintf("it has the label %s=%s, and KubeVirt demands %s", key, value,
				s.Labels[key])
		}
	}

	isHard := func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !isCondition(t)
	}

	if t, isRefused := scheduling.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints,
		s.Pod.Tolerations, isHard, true); isRefused {
		return "the VM does not tolerate its taint " + t.ToString()
	}

	return ""
}

// unmatched names what of the VM's node selector the node lacks.
func (n *node) unmatched(s Shape) string {
	for _, key := range slices.Sorted(maps.Keys(s.Pod.NodeSelector)) {
		if value := s.Pod.NodeSelector[key]; n.Labels[key] != value {
			return fmt.Sprintf("it lacks the label %s=%s of the VM's nodeSelector", key, value)
		}
	}
	return "it does not match the VM's node affinity"
}

// isCondition reports whether a taint is one that Kubernetes sets and removes by itself.
func isCondition(t *corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") }

// unavailable says why nothing is scheduled on the node at present, "" where it is. That passes, so
// it does not limit how many VMs fit when the node is empty.
func (n *node) unavailable() string {
	if n.Spec.Unschedulable {
		return "it is cordoned"
	}

	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return strings.TrimSuffix("it is not ready: "+c.Reason, ": ")
		}
	}

	if value, isSet := n.Labels[v1.NodeSchedulable]; isSet && value != "true" {
		return fmt.Sprintf("it has the label %s=%s: virt-handler does not run on it",
			v1.NodeSchedulable, value)
	}

	for _, t := range n.Spec.Taints {
		if isCondition(&t) && t.Effect != corev1.TaintEffectPreferNoSchedule {
			return "it has the taint " + t.ToString()
		}
	}

	return ""
}

// times returns how often a need is met, and the sentence that says so.
func (n *node) times(name corev1.ResourceName, need resource.Quantity, isEmpty bool) (int, string) {
	each := amount(name, need)
	if each == 0 {
		return math.MaxInt, ""
	}

	left := n.left(name, isEmpty)
	free := resource.NewQuantity(left, need.Format)
	if name == corev1.ResourceCPU {
		free = resource.NewMilliQuantity(left, need.Format)
	}

	return int(left / each), fmt.Sprintf("%s of %s are free, and %s are needed", free, name,
		need.String())
}

// left returns how much of a resource the node has, less what its pods request unless it is empty.
func (n *node) left(name corev1.ResourceName, isEmpty bool) int64 {
	left := amount(name, n.Status.Allocatable[name])
	if isEmpty {
		return left
	}

	for _, p := range n.pods[n.Name] {
		taken := int64(1)
		if name != corev1.ResourcePods {
			taken = amount(name, p.Requests[name])
		}

		left -= min(taken, left)
	}

	return left
}

// amount returns a quantity as the scheduler counts it: thousandths of a CPU, else whole units,
// rounded up (kubernetes pkg/scheduler/framework/types.go, Resource.Add).
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return max(q.MilliValue(), 0)
	}
	return max(q.Value(), 0)
}
