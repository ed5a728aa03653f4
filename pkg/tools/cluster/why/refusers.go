package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/tools/cluster/provider"
	"hook-sidecar/pkg/words/lazyregexp"
)

// Who has to answer for the VM to start, and does not: the pods of a service that the API server
// calls, KubeVirt's controller, and what a node lacks because no pod of a DaemonSet is there.

// service is one that the API server calls (Kubernetes
// staging/src/k8s.io/apiserver/pkg/util/webhook/serviceresolver.go).
var service = lazyregexp.New(`https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc\b`)

// addRefusers adds why a service does not answer that a message about the VM names as failed: by
// the state of its pods, which are called after it.
func (e *Evidence) addRefusers() {
	for _, n := range e.inOrder() {
		f := service.FindStringSubmatch(n.plainLine())
		if f != nil && n.isError && strings.Contains(n.plainLine(), "failed calling webhook") {
			e.addDown(f[2], f[1])
		}
	}

	isNew := e.vmi == nil && e.vm != nil || e.Phase == "Pending"
	for _, pod := range e.pods {
		if isNew && strings.HasPrefix(pod.Name, "virt-controller-") {
			e.addDown(pod.Namespace, "virt-controller")
			return
		}
	}
}

// addAgents adds that a pod on the VM's node does not run which the kubelet calls for what failed.
func (e *Evidence) addAgents() {
	for _, n := range e.inOrder() {
		if n.cause == nil || agents[n.cause.Name] == nil {
			continue
		}

		for _, pod := range e.pods {
			text := e.trouble(pod)
			if text != "" && pod.Spec.NodeName == e.nodeOfPod() && pod.Spec.NodeName != "" &&
				hasAny(pod.Name, agents[n.cause.Name]) {
				e.addFact(n.cause.Stage, fmt.Sprintf("what the kubelet calls on node %s does not run: %s",
					pod.Spec.NodeName, text))
			}
		}
	}
}

// nodeOfPod returns the node of the VM, or that of its pod; "" if it has none.
func (e *Evidence) nodeOfPod() string {
	for _, pod := range e.pods {
		if e.Node == "" && e.isOwn("Pod", pod.Namespace, pod.Name) && !pod.isEnded() {
			return pod.Spec.NodeName
		}
	}
	return e.Node
}

// addDown adds that no pod of a Deployment is ready, and what is the matter with one of them.
func (e *Evidence) addDown(namespace, name string) {
	why, isRead := "", false
	for _, pod := range e.pods {
		isRead = isRead || pod.Namespace == namespace
		if pod.Namespace != namespace || !strings.HasPrefix(pod.Name, name+"-") {
			continue
		}
		if pod.isReady() {
			return
		}
		if why == "" {
			why = cmp.Or(e.trouble(pod), fmt.Sprintf("pod %s/%s is not ready", namespace, pod.Name))
		}
	}

	switch {
	case why == "" && isRead && strings.HasPrefix(name, "virt-"):
		why = "what was read has none"
	case why == "": // the pods of a service may be called otherwise
		return
	}

	e.addFact(StageCreate, fmt.Sprintf("no pod of %s in namespace %s is ready: %s", name, namespace, why))
}

// addAbsent adds that no pod of a DaemonSet is on a node that would do for the VM otherwise:
// virt-handler, without which KubeVirt gives a node no VM, where the node has the VM's devices, and
// what offers or makes devices where no node has them.
func (e *Evidence) addAbsent(names []corev1.ResourceName) {
	for _, node := range e.nodes {
		if node.Labels[schedulable] != "true" && e.hasRequested(node) && e.lacksPodOn(node.Name, isHandler) {
			e.addAbsence("virt-handler", node, isNamed("virt-handler"))
		}
	}

	isUnoffered := func(name corev1.ResourceName) bool { return !e.isOffered(name, "") }
	if !slices.ContainsFunc(names, isUnoffered) {
		return
	}

	for _, set := range e.related["DaemonSet"] {
		name := set.Namespace + "/" + set.Name
		for _, node := range e.nodes {
			_, isControl := node.Labels["node-role.kubernetes.io/control-plane"]
			isOwn := func(pod object) bool { return strings.HasPrefix(pod.Name, set.Name+"-") }
			if provider.IsNamed(name) && !isControl && e.lacksPodOn(node.Name, isOwn) {
				e.addAbsence("what offers or makes devices", node, isNamed(set.Name))
			}
		}
	}
}

// isNamed returns a function that reports whether an object has a name.
func isNamed(name string) func(related) bool {
	return func(o related) bool { return o.Name == name }
}

// addAbsence adds that a program has no pod on a node, if its DaemonSet says why or, for
// virt-handler, also without one.
func (e *Evidence) addAbsence(program string, node object, isOf func(related) bool) {
	why := ""
	if at := slices.IndexFunc(e.related["DaemonSet"], isOf); at >= 0 {
		why = e.related["DaemonSet"][at].keptOff(node)
	}

	switch {
	case why != "":
		e.addFact(StageSchedule, fmt.Sprintf("%s does not run on node %s: no pod of it is there, since %s",
			program, node.Name, why))
	case program == "virt-handler":
		e.addFact(StageSchedule, fmt.Sprintf("%s does not run on node %s: no pod of it is there%s",
			program, node.Name, node.closed()))
	}
}

// lacksPodOn reports whether pods of a kind were read, and none is on a node.
func (e *Evidence) lacksPodOn(node string, isOf func(object) bool) bool {
	isHere := func(pod object) bool { return isOf(pod) && pod.Spec.NodeName == node && !pod.isEnded() }
	return slices.ContainsFunc(e.pods, isOf) && !slices.ContainsFunc(e.pods, isHere)
}

// hasRequested reports whether a node has a device that the VM's pod requests.
func (e *Evidence) hasRequested(node object) bool {
	return slices.ContainsFunc(e.pods, func(pod object) bool {
		return e.isOwn("Pod", pod.Namespace, pod.Name) && slices.ContainsFunc(pod.Spec.Containers,
			func(c corev1.Container) bool {
				for name := range c.Resources.Requests {
					vendor, _, isDevice := strings.Cut(string(name), "/")
					has := node.Status.Capacity[name]
					if isDevice && vendor != "devices.kubevirt.io" && !has.IsZero() {
						return true
					}
				}
				return false
			})
	})
}
