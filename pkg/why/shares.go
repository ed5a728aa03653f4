package why

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NoNode is the cause for which nodes, and the pods of all namespaces, say who has what.
const NoNode = "no-node"

// shares returns a line for each device, and each size of hugepages, that is insufficient as
// the scheduler says: which nodes have it, and who uses it there. Without nodes it has none.
func (e *Evidence) shares(message string) []string {
	var lines []string
	for _, match := range regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`).FindAllStringSubmatch(message, -1) {
		name, nodes := corev1.ResourceName(match[1]), []string(nil)
		for _, node := range e.nodes {
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				nodes = append(nodes, fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), e.users(node.Name, name)))
			}
		}
		if len(nodes) == 0 {
			nodes = []string{"no node has it"}
		}
		if len(e.nodes) > 0 {
			lines = append(lines, quote(match[1]+": "+strings.Join(nodes, "; "), 0))
		}
	}
	return lines
}

// users returns which pods of a node have how much of a resource.
func (e *Evidence) users(node string, name corev1.ResourceName) string {
	var users []string
	for _, pod := range e.pods {
		var total resource.Quantity
		for _, c := range pod.Spec.Containers {
			total.Add(c.Resources.Requests[name])
		}
		hasEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.Spec.NodeName == node && !hasEnded && !total.IsZero() {
			users = append(users, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, total.String()))
		}
	}
	if len(users) == 0 {
		return "nobody"
	}
	return strings.Join(users, ", ")
}
