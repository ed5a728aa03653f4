package why

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// budget has the fields of a PodDisruptionBudget that say which pods it keeps, and why it lets none
// go (Kubernetes staging/src/k8s.io/api/policy/v1/types.go).
type budget struct {
	Spec struct {
		MinAvailable, MaxUnavailable *intstr.IntOrString
		Selector                     *metav1.LabelSelector
	}
	Status struct {
		DisruptionsAllowed int32
		Conditions         []metav1.Condition
	}
}

// budgetNotes says which budgets keep the VM's pod where it is while its node is drained.
// KubeVirt's own budgets end with the VM's migration.
func (e *Evidence) budgetNotes() (notes []string) {
	isDrained := e.overBudget
	for _, node := range e.nodes {
		isDrained = isDrained || node.Name == e.Node && node.Spec.Unschedulable
	}

	if !isDrained || e.Phase != "Running" {
		return nil
	}

	const note = "the drain of node %s waits for it: %s; the VM itself is well"
	for _, o := range e.related["PodDisruptionBudget"] {
		var b budget
		json.Unmarshal(o.data, &b) // goes on after a field of a wrong type
		isKubeVirts := strings.HasPrefix(o.Name, "kubevirt-")
		if b.Status.DisruptionsAllowed == 0 && !isKubeVirts && e.keeps(o, b) {
			notes = append(notes, fmt.Sprintf(note, e.Node, b.words(o)))
		}
	}

	if e.overBudget && len(notes) == 0 {
		notes = append(notes, fmt.Sprintf(note, e.Node, "a PodDisruptionBudget allows no disruption; "+
			"kubectl get poddisruptionbudgets shows which, and kubectl describe why"))
	}

	return notes
}

// keeps reports whether a budget is for the VM's pod.
func (e *Evidence) keeps(o related, b budget) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return false
	}

	for _, pod := range e.pods {
		if e.isOwn("Pod", pod.Namespace, pod.Name) && pod.Namespace == o.Namespace &&
			selector.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}

	return false
}

// words says what a budget allows, why, and what to do.
func (b budget) words(o related) string {
	text := fmt.Sprintf("PodDisruptionBudget %s/%s allows 0 disruptions", o.Namespace, o.Name)
	if b.Spec.MaxUnavailable != nil {
		text += fmt.Sprintf(" with maxUnavailable %s", b.Spec.MaxUnavailable)
	} else if b.Spec.MinAvailable != nil {
		text += fmt.Sprintf(" with minAvailable %s", b.Spec.MinAvailable)
	}

	for _, c := range b.Status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Message != "" {
			text += fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
		}
	}

	if b.Spec.MaxUnavailable != nil || b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type ==
		intstr.String {
		return text + "; VMs have no scale subresource, which maxUnavailable and percentages want: " +
			"give it minAvailable with a number, or delete it for the drain"
	}

	return text + "; lower its minAvailable or delete it for the drain, or stop the VM"
}
