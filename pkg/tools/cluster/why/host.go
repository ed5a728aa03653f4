package why

import (
	"cmp"
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// namedPod is a pod in a message, as facts have it.
var namedPod = lazyregexp.New(`\b[Pp]od ((?:[a-z0-9.-]+/)?[a-z0-9][a-z0-9.-]*-[a-z0-9.-]*[a-z0-9])`)

// isOnOtherNode reports whether a line names a host that is not the VM's node.
func (e *Evidence) isOnOtherNode(n entry) bool {
	if e.Node == "" || n.host == "" || n.host == "localhost" || isAddress(e.Node) {
		return false
	}

	names := []string{e.Node}
	for _, node := range e.nodes {
		if node.Name == e.Node {
			names = append(names, node.Labels["kubernetes.io/hostname"])
		}
	}

	return !slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(short(name), short(n.host))
	})
}

// short returns a host's name without its domain.
func short(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// isAddress reports whether a node's name is an IP address, which its log does not have.
func isAddress(name string) bool {
	return strings.Trim(name, "0123456789.") == "" || strings.Contains(name, ":")
}

// nodeOfLog returns the node that a line of a log is of; "" if nothing says so.
func (e *Evidence) nodeOfLog(n entry) string {
	if !n.isLog {
		return ""
	}
	return e.nodeOf(n)
}

// nodeOf returns the node that a line is of: that of the pod whose log it is, the host that it names,
// or a node whose name the file's name has; "" if nothing says so.
func (e *Evidence) nodeOf(n entry) string {
	if f := namedPod.FindStringSubmatch(n.source); f != nil {
		for _, pod := range e.pods {
			if pod.Name == f[1] {
				return pod.Spec.NodeName
			}
		}
	}

	name, all := "", []string{}
	for _, node := range e.nodes {
		all = append(all, node.Name)
		if strings.Contains(n.source, node.Name) && len(node.Name) > len(name) {
			name = node.Name
		}
	}

	if name == "" && n.host == "" && len(all) == 1 {
		return all[0]
	}

	return cmp.Or(n.host, name)
}
