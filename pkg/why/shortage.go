package why

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shortages returns a line for each device, and each size of hugepages, of which the
// scheduler says that it is insufficient: which node has how much, and who uses it.
func (e *Evidence) shortages(message string) (lines []string, found bool) {
	for _, match := range regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`).FindAllStringSubmatch(message, -1) {
		const most = 3
		found = true
		var nodes []string
		for _, node := range e.nodes {
			name := corev1.ResourceName(match[1])
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				nodes = append(nodes, fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), e.users(node.Name, name)))
			}
		}
		if len(nodes) == 0 {
			nodes = []string{"no node has it"}
		}
		if more := len(nodes) - most; more > 0 {
			nodes = append(nodes[:most], fmt.Sprintf("%d more nodes have it", more))
		}
		if len(e.nodes) > 0 { // else they were not read
			lines = append(lines, match[1]+": "+strings.Join(nodes, "; "))
		}
	}
	return lines, found
}

// users returns how much of a resource the pods of a node have.
func (e *Evidence) users(node string, name corev1.ResourceName) string {
	var users []string
	for _, pod := range e.pods {
		if pod.Spec.NodeName != node || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		var total resource.Quantity
		for _, c := range pod.Spec.Containers {
			total.Add(c.Resources.Requests[name])
		}
		if !total.IsZero() {
			users = append(users, fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, total.String()))
		}
	}
	if len(users) == 0 {
		return "nobody"
	}
	return strings.Join(users, ", ")
}
