package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// insufficient is a device, or a size of hugepages, in the scheduler's message.
var insufficient = regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`)

// shares returns a line per device, and per size of hugepages, that the scheduler reports as
// insufficient: which nodes have it, and which pods use it there. Without nodes it returns none.
func (e *Evidence) shares(message string) []string {
	lines := []string{}
	if len(e.nodes) == 0 {
		return lines
	}

	for _, match := range insufficient.FindAllStringSubmatch(message, -1) {
		name, nodes := corev1.ResourceName(match[1]), []string(nil)
		users := e.users(name)
		for _, node := range e.nodes {
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				used := cmp.Or(strings.Join(users[node.Name], ", "), "no pod that was read")
				nodes = append(nodes,
					fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), used))
			}
		}

		lines = append(lines,
			quote(match[1]+": "+cmp.Or(strings.Join(nodes, "; "), "no node has it"), 0))
	}

	return lines
}

// users returns the pods that use a resource, by node.
func (e *Evidence) users(name corev1.ResourceName) map[string][]string {
	users := map[string][]string{}
	for _, pod := range e.pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, c := range pod.Spec.Containers {
			has, on := c.Resources.Requests[name], pod.Spec.NodeName
			user := fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, has.String())
			if !has.IsZero() && !slices.Contains(users[on], user) { // a pod may be in two lists
				users[on] = append(users[on], user)
			}
		}
	}

	return users
}
