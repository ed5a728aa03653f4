package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NoNode is the cause for which nodes, and the pods of all namespaces, say who has what.
const NoNode = "no-node"

// shares returns a line per device, and per size of hugepages, that the scheduler reports as
// insufficient: which nodes have it, and which pods use it there. Without nodes it returns none.
func (e *Evidence) shares(message string) []string {
	lines := []string{}
	for _, match := range regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`).FindAllStringSubmatch(message, -1) {
		name, nodes := corev1.ResourceName(match[1]), []string(nil)
		for _, node := range e.nodes {
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				used := cmp.Or(strings.Join(e.users(node.Name, name), ", "), "no pod that was read")
				nodes = append(nodes, fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), used))
			}
		}
		if len(e.nodes) > 0 {
			lines = append(lines, quote(match[1]+": "+cmp.Or(strings.Join(nodes, "; "), "no node has it"), 0))
		}
	}
	return lines
}

// users returns which containers of a node have how much of a resource. A pod may be in two
// lists that were read.
func (e *Evidence) users(node string, name corev1.ResourceName) (users []string) {
	for _, pod := range e.pods {
		hasEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		for _, c := range pod.Spec.Containers {
			requests := c.Resources.Requests[name]
			user := fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, requests.String())
			if pod.Spec.NodeName == node && !hasEnded && !requests.IsZero() && !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	return users
}
