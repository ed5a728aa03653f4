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

// maxNodes limits the nodes that are shown per resource.
const maxNodes = 12

// shares returns a line per resource that the scheduler reports as insufficient and node that has
// it: how much, and which pods use it there. Without nodes it returns none.
func (e *Evidence) shares(message string) []string {
	lines := []string{}
	if strings.Contains(message, "cannot allocate all claims") {
		lines = append(lines, e.holders()...)
	}

	if len(e.nodes) == 0 {
		return lines
	}

	if strings.Contains(message, "node affinity/selector") {
		lines = append(lines, e.selections()...)
	}

	for _, name := range lacking(message) {
		users, count := e.users(name), 0
		for _, node := range e.nodes {
			text := node.share(name, users[node.Name])
			if text == "" {
				continue
			}

			if count++; count <= maxNodes {
				lines = append(lines, quote(fmt.Sprintf("%s: node %s %s", name, node.Name, text), 0))
			}
		}

		switch {
		case count == 0:
			lines = append(lines, string(name)+": no node has it")
		case count > maxNodes:
			lines = append(lines, fmt.Sprintf("%s: %d more nodes have it", name, count-maxNodes))
		}
	}

	return lines
}

// selectionRemedy is the remedy where labels and taints keep the VM from all nodes, and no node is
// short of a resource.
const selectionRemedy = "give a node the label that it lacks, or take it out of what the VM " +
	"selects; the labels of KubeVirt are virt-handler's, by what the node can and what the " +
	"KubeVirt object's feature gates have it look for; ask who cordoned or tainted a node"

// selections returns a line per node that lacks a label that the VM's pod selects.
func (e *Evidence) selections() (lines []string) {
	isOwn := func(pod object) bool { return e.isOwn("Pod", pod.Namespace, pod.Name) && !pod.isEnded() }
	at := slices.IndexFunc(e.pods, isOwn)
	if at < 0 {
		return nil
	}

	wanted := e.pods[at].Spec.NodeSelector
	for _, node := range e.nodes[:min(len(e.nodes), maxNodes)] {
		for _, label := range slices.Sorted(maps.Keys(wanted)) {
			if node.Labels[label] != wanted[label] {
				lines = append(lines, quote(fmt.Sprintf("node %s lacks the label %s=%s", node.Name,
					label, wanted[label]), 0))
			}
		}
	}

	return lines
}

// share returns what a node has of a resource and who uses it; "" if it has nothing to do with it.
func (o object) share(name corev1.ResourceName, users []string) string {
	has, isOffered := o.Status.Allocatable[name]
	total := o.Status.Capacity[name]
	holders := strings.Join(users, ", ")
	text := ""
	switch {
	case !has.IsZero():
		text = fmt.Sprintf("has %s, used by %s", has.String(),
			cmp.Or(holders, "no pod that was read"))
	case holders != "":
		text = fmt.Sprintf("offers none, and %s uses it", holders)
	case !total.IsZero():
		text = fmt.Sprintf("has %s and offers none", total.String())
	case isOffered:
		text = "has 0"
	default:
		return ""
	}

	return text + o.closed()
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

// isOffered reports whether a node offers a resource.
func (e *Evidence) isOffered(name corev1.ResourceName, node string) bool {
	return slices.ContainsFunc(e.nodes, func(o object) bool {
		has := o.Status.Allocatable[name]
		return (node == "" || o.Name == node) && !has.IsZero()
	})
}

// schedulable is the label of a node that has a virt-handler whose heartbeat goes on (KubeVirt
// pkg/virt-controller/watch/node/node.go).
const schedulable = "kubevirt.io/schedulable"

// claim has the fields of a ResourceClaim that say which devices it asks for and has (Kubernetes
// staging/src/k8s.io/api/resource/v1/types.go).
type claim struct {
	Spec struct {
		Devices struct {
			Requests []struct {
				Exactly struct{ DeviceClassName string }
			}
		}
	}
	Status struct {
		Allocation *struct {
			Devices struct {
				Results []struct{ Driver, Pool, Device string }
			}
		}
		ReservedFor []struct{ Name string }
	}
}

// holders returns a line per claim that has devices of the classes which the VM's own claims wait for.
func (e *Evidence) holders() (lines []string) {
	type holder struct {
		name string
		claim
	}
	var wanted []string
	var others []holder
	for _, o := range e.related["ResourceClaim"] {
		var c claim
		json.Unmarshal(o.data, &c) // goes on after a field of a wrong type
		isOwn := slices.ContainsFunc(o.OwnerReferences, func(owner metav1.OwnerReference) bool {
			return e.isOwn(owner.Kind, o.Namespace, owner.Name)
		})
		switch {
		case isOwn && c.Status.Allocation == nil:
			wanted = append(wanted, c.classes()...)
		case c.Status.Allocation != nil:
			others = append(others, holder{o.Namespace + "/" + o.Name, c})
		}
	}

	isWanted := func(class string) bool { return slices.Contains(wanted, class) }
	for _, h := range others {
		if !slices.ContainsFunc(h.classes(), isWanted) || len(lines) == maxNodes {
			continue
		}

		for _, d := range h.Status.Allocation.Devices.Results {
			line := fmt.Sprintf("claim %s has device %s of %s (%s)", h.name, d.Device, d.Pool, d.Driver)
			for _, user := range h.Status.ReservedFor {
				line += ", for pod " + user.Name
			}
			lines = append(lines, quote(line, 0))
		}
	}

	return lines
}

// classes returns the names of the classes of devices that a claim asks for.
func (c claim) classes() (names []string) {
	for _, request := range c.Spec.Devices.Requests {
		names = append(names, request.Exactly.DeviceClassName)
	}
	return names
}
