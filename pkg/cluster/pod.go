package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// compute is the container in which libvirt runs (KubeVirt
// pkg/virt-controller/services/template.go).
const compute = "compute"

// launcher finds the pod in which a VM runs. While it migrates, and long after, there
// are others: the pod is the newest that runs on the VMI's node, as for virt-controller
// (KubeVirt pkg/controller/controller.go, CurrentVMIPod).
func (c *Client) launcher(ctx context.Context, in Instance) (*corev1.Pod, error) {
	if !in.isRunning() {
		return nil, &Error{fmt.Errorf("VM %s does not run: its phase is %q", in.NamespacedName, in.phase), "try again when it runs; kubectl describe vmi " + in.Name + " says what it waits for"}
	}
	var pods corev1.PodList
	selector := fmt.Sprintf("%s=virt-launcher,%s=%s", v1.AppLabel, v1.CreatedByLabel, in.UID)
	err := c.rest.Get().Namespace(in.Namespace).Resource("pods").Param("labelSelector", selector).Do(ctx).Into(&pods)
	if err != nil {
		return nil, listPods(in.Namespace).refused(fmt.Sprintf("find the pod of VM %s", in.NamespacedName), err)
	}
	running := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != in.Node
	})
	if len(running) == 0 {
		return nil, &Error{
			fmt.Errorf("VM %s has no running pod on its node %q; it has %s", in.NamespacedName, in.Node, describe(pods.Items)),
			"try again: it may have moved meanwhile",
		}
	}
	newest := slices.MaxFunc(running, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &newest, nil
}

func describe(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return "none at all"
	}
	var all []string
	for _, p := range pods {
		all = append(all, fmt.Sprintf("%s (%s on %q)", p.Name, p.Status.Phase, p.Spec.NodeName))
	}
	return strings.Join(all, ", ")
}

// sidecars are the running containers that may be this hook: those of hook sidecars,
// hook-sidecar-0 (KubeVirt pkg/virt-controller/services/template.go), and that of
// manifests/plugin.
func sidecars(pod *corev1.Pod) []string {
	var names []string
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if strings.HasPrefix(status.Name, "hook-sidecar") && status.State.Running != nil {
			names = append(names, status.Name)
		}
	}
	return names
}

func (in Instance) isRunning() bool { return in.phase == string(v1.Running) }
