package why

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// shares returns a line for each device, and each size of hugepages, that is insufficient as
// the scheduler says. Without nodes it finds that there are some.
func (e *Evidence) shares(message string) (lines []string, found bool) {
	const most = 3
	for _, match := range regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`).FindAllStringSubmatch(message, -1) {
		found = true
		var nodes []string
		for _, node := range e.nodes {
			name := corev1.ResourceName(match[1])
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				nodes = append(nodes, fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), e.users(node.Name, name)))
			}
		}
		switch more := len(nodes) - most; {
		case len(e.nodes) == 0:
			continue
		case len(nodes) == 0:
			nodes = []string{"no node has it"}
		case more > 0:
			nodes = append(nodes[:most], fmt.Sprintf("%d more nodes have it", more))
		}
		lines = append(lines, match[1]+": "+strings.Join(nodes, "; "))
	}
	return lines, found
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
