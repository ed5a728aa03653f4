package cluster

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/tools/cluster/archive"
)

// PodContent is what can be read in the pod of a VM, whether its domain runs or not. An error
// says why a part is missing.
type PodContent struct {
	Domain    []byte
	DomainErr error

	Node     []byte // a snapshot of it
	SeenIn   string // the name of the snapshot in an archive: which container it was read in
	NodeErr  error
	Versions []byte // of libvirt and QEMU

	Environ    []string // of compute
	EnvironErr error
}

// maxVersions limits the size of what virsh prints of versions.
const maxVersions = 64 << 10

// Content reads what is in a pod of a VM.
func (c *Client) Content(ctx context.Context, in Instance, pod *corev1.Pod) (content PodContent) {
	content.Domain, content.DomainErr = c.domain(ctx, pod, in)
	content.Environ, content.EnvironErr = c.environ(ctx, pod)

	sysfs, hook, err := c.host(ctx, pod, nil)
	content.SeenIn = archive.SnapshotIn(hook)
	if hook == "" {
		content.SeenIn = archive.SnapshotIn(compute)
	}

	if err == nil {
		var snapshot *host.Snapshot
		// Taken again for one form of all snapshots.
		if snapshot, _, err = host.TakeSnapshot(sysfs); err == nil {
			content.Node, err = snapshot.Format("")
		}
	}

	content.NodeErr = err

	// Which libvirt and QEMU there are is no more than a help.
	content.Versions, _ = c.exec(ctx, pod, command{
		container: compute, limit: maxVersions,
		words: []string{"virsh", "-q", "-c", in.uri(), "version"},
	})

	return content
}

// HasLibvirt reports whether libvirt can be asked in a pod: its container compute runs.
func HasLibvirt(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == compute && s.State.Running != nil
	})
}

// IsLauncherOf reports whether a pod is, or was, that of a VM: virt-controller says so in the pod's
// labels and annotations (KubeVirt pkg/virt-controller/services/template.go), and lets the API
// server generate the end of its name.
func IsLauncherOf(pod *corev1.Pod, in Instance) bool {
	const vmLabel, domainAnnotation, longest = "vm.kubevirt.io/name", "kubevirt.io/domain", 58
	if pod.Namespace != in.Namespace {
		return false
	}

	begin := "virt-launcher-" + in.Name + "-"
	isGenerated := strings.HasPrefix(pod.Name, begin[:min(len(begin), longest)]) &&
		!strings.Contains(pod.Name[min(len(begin), longest):], "-")
	return in.UID != "" && pod.Labels[v1.CreatedByLabel] == string(in.UID) ||
		pod.Labels[vmLabel] == in.Name || pod.Annotations[domainAnnotation] == in.Name ||
		isGenerated
}
