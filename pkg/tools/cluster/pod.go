package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

// compute is the container that runs libvirt (KubeVirt pkg/virt-controller/services/template.go).
const compute = "compute"

// launcher finds the pod that runs a VM. During a migration and long after it the VM has other
// pods: the right one is the newest that runs on the VMI's node (KubeVirt
// pkg/controller/controller.go, CurrentVMIPod).
func (c *Client) launcher(ctx context.Context, in Instance) (*corev1.Pod, error) {
	if !in.IsRunning() {
		return nil, reasons.WithHint("try again when it runs; kubectl hostdev why "+in.Name+" -n "+
			in.Namespace+
			" says why it does not", fmt.Errorf("VM %s is not running: its phase is %q",
			in.NamespacedName, in.Phase))
	}

	doing := fmt.Sprintf("find the pod of VM %s", in.NamespacedName)
	var pods corev1.PodList
	selector := fmt.Sprintf("%s=virt-launcher,%s=%s", v1.AppLabel, v1.CreatedByLabel, in.UID)
	err := c.decode(ctx, doing, Query{
		Resource:   "pods",
		Namespace:  in.Namespace,
		Parameters: map[string]string{"labelSelector": selector},
	}, &pods)
	if err != nil {
		return nil, err
	}

	running := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool {
		return p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != in.Node
	})

	if len(running) == 0 {
		return nil, reasons.WithHint("try again: it may have moved meanwhile",
			fmt.Errorf("VM %s has no running pod on its node %q, of %s", in.NamespacedName, in.Node,
				words.Counted(len(pods.Items), "pod")))
	}

	newest := slices.MaxFunc(running, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})

	return &newest, nil
}

// sidecarName begins the names of the containers that may be this hook: KubeVirt calls hook sidecars
// hook-sidecar-0 and so on (pkg/virt-controller/services/template.go), manifests/plugin calls its
// container hook-sidecar.
const sidecarName = "hook-sidecar"

// sidecars returns the names of the running containers that may be this hook.
func sidecars(pod *corev1.Pod) []string {
	var names []string
	for _, status := range slices.Concat(pod.Status.ContainerStatuses,
		pod.Status.InitContainerStatuses) {
		if strings.HasPrefix(status.Name, sidecarName) && status.State.Running != nil {
			names = append(names, status.Name)
		}
	}

	return names
}

// container returns a container of the pod's spec.
func container(pod *corev1.Pod, name string) corev1.Container {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == name {
			return c
		}
	}
	return corev1.Container{}
}
