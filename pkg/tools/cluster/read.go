package cluster

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/topology"
)

// RunningVM is a VM that runs, as it was read.
type RunningVM struct {
	Instance
	Pod    string
	Domain []byte
	// of the domain's devices; nil if more was read than with DevicesOnly
	IDs  []topology.DeviceID
	Host fs.FS // a snapshot of its node, or of the part that concerns its devices

	// of compute, where the kubelet names the pod's devices; nil unless it was read with
	// NodeAndEnviron
	Environ []string

	// PortHelp has the properties of QEMU's switch ports with a link, as the QEMU of the pod prints
	// them; "" if it has no such ports, or unless the scope is NodeAndEnviron
	PortHelp string

	Hook     string   // the container of the pod that has this hook, "" for none
	HookArgs []string // the command line that the pod gives that container

	pod *corev1.Pod
}

// IsSidecar reports whether the hook is a sidecar by the VM's annotation, and not a Plugin's.
func (vm RunningVM) IsSidecar() bool { return strings.HasPrefix(vm.Hook, sidecarName+"-") }

// Scope is the part of the node and of the pod that is read.
type Scope int

// The scopes.
const (
	DevicesOnly Scope = iota // the part that concerns the domain's devices
	WholeNode
	NodeAndEnviron
)

// Limits of a pod's output: a domain is limited as in serve, a snapshot as a file.
const (
	maxDomain   = 8 << 20
	maxSnapshot = 16 << 20
	maxEnviron  = 1 << 20
	maxHelp     = 64 << 10
)

// VM reads a running VM.
func (c *Client) VM(ctx context.Context, in Instance, scope Scope) (RunningVM, error) {
	if in.Err != nil {
		return RunningVM{}, in.Err
	}

	pod, err := c.launcher(ctx, in)
	if err != nil {
		return RunningVM{}, err
	}

	vm := RunningVM{Instance: in, Pod: pod.Name, pod: pod}
	if vm.Domain, err = c.domain(ctx, pod, in); err != nil {
		return vm, err
	}

	if scope == DevicesOnly {
		d, err := domain.Parse(vm.Domain)
		if err != nil {
			return vm, fmt.Errorf("parse domain: %w", err)
		}

		if vm.IDs = placement.Candidates(d, nil); len(vm.IDs) == 0 {
			vm.Host = embed.FS{} // empty: nothing needs to be read
			return vm, nil
		}
	}

	vm.Host, vm.Hook, err = c.host(ctx, pod, vm.IDs)
	hookContainer := container(pod, vm.Hook)
	vm.HookArgs = slices.Concat(hookContainer.Command, hookContainer.Args)

	if err == nil && scope == NodeAndEnviron {
		vm.Environ, _ = c.environ(ctx, pod)   // without it, its check is skipped
		vm.PortHelp, _ = c.portHelp(ctx, pod) // likewise
	}

	return vm, err
}

// environ returns the environment of compute.
func (c *Client) environ(ctx context.Context, pod *corev1.Pod) ([]string, error) {
	text, err := c.exec(ctx, pod, command{
		container: compute, words: []string{"env", "-0"}, limit: maxEnviron,
		file: archive.VariablesName,
	})
	if err != nil {
		return nil, err
	}
	return env.ParseEnviron(string(text))
}

// PortQuestion returns the command that prints in compute the properties of QEMU's switch ports with a
// link. It starts nothing. The names are those of RHEL's QEMU, which KubeVirt has, and of others.
func PortQuestion() []string {
	const script = "for qemu in /usr/libexec/qemu-kvm /usr/bin/qemu-kvm " +
		"/usr/bin/qemu-system-x86_64; do [ ! -x $qemu ] || exec $qemu -device " +
		libvirt.CXLUpstreamDriver + ",help; done; exit 127"
	return []string{"sh", "-c", script}
}

// portHelp returns what the QEMU of compute answers to it.
func (c *Client) portHelp(ctx context.Context, pod *corev1.Pod) (string, error) {
	text, err := c.exec(ctx, pod, command{
		container: compute, words: PortQuestion(), limit: maxHelp, file: archive.PortHelpName,
	})
	return string(text), err
}

// domain returns the domain as libvirt runs it.
func (c *Client) domain(ctx context.Context, pod *corev1.Pod, in Instance) ([]byte, error) {
	xml, err := c.exec(ctx, pod, command{
		container: compute,
		words: []string{
			"virsh", "-q", "-c", in.uri(), "dumpxml", kubevirt.DomainName(in.NamespacedName),
		},
		limit: maxDomain,
		file:  archive.DomainName,
	})

	if err != nil {
		return nil, withoutProgram(err,
			"the pod's image has no virsh, so it is not KubeVirt's virt-launcher; pass the domain "+
				"to hook-sidecar explain --domain")
	}

	return xml, nil
}

// Exit statuses of a shell or a container runtime that cannot run a program (POSIX.1-2017,
// 2.8.2), and a runtime's error without a status (runc libcontainer/init_linux.go).
const (
	cannotRun     = 126
	notFound      = 127
	notFoundError = "executable file not found in $PATH"
)

// withoutProgram adds a remedy to an error if the container lacks the program.
func withoutProgram(err error, remedy string) error {
	if isMissing(err) {
		return reasons.WithHint(remedy, err)
	}
	return err
}

// isMissing reports whether the container lacks the program.
func isMissing(err error) bool {
	var exit *exitError
	isStatus := errors.As(err, &exit) && (exit.code == cannotRun || exit.code == notFound)
	return isStatus || err != nil && strings.Contains(err.Error(), notFoundError)
}

// host reads the node's sysfs: through this hook if a container of the pod has it, which
// it names, else through a script in compute. Without ids it reads the whole node.
func (c *Client) host(
	ctx context.Context, pod *corev1.Pod, ids []topology.DeviceID,
) (sysfs fs.FS, hook string, err error) {
	for _, name := range sidecars(pod) {
		image := container(pod, name).Image
		if _, isOther := c.others.Load(image); isOther {
			continue
		}

		sysfs, err := c.snapshot(ctx, pod, command{
			container: name, words: []string{"hook-sidecar", "snapshot"},
			file: archive.SnapshotIn(name),
		})
		if err == nil {
			return sysfs, name, nil
		}

		// It is another hook's container, or compute fails with the same error.
		if isMissing(err) && image != "" {
			c.others.Store(image, true)
		}
	}

	sysfs, err = c.snapshot(ctx, pod, command{
		container: compute, words: []string{"sh", "-s"}, input: host.Script("/sys", ids),
		file: archive.SnapshotIn(compute),
	})

	return sysfs, "", withoutProgram(err,
		"the pod's image has no shell; take a snapshot on its node: hook-sidecar snapshot")
}

// snapshot runs a command that prints a snapshot of the node.
func (c *Client) snapshot(ctx context.Context, pod *corev1.Pod, cmd command) (fs.FS, error) {
	cmd.limit = maxSnapshot
	text, err := c.exec(ctx, pod, cmd)
	if err != nil {
		return nil, err
	}

	sysfs, err := host.ParseSnapshot(text)
	if err != nil {
		return nil, fmt.Errorf("read the sysfs of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	return sysfs, nil
}

// OnNode finds a VM that runs on a node, through which the node can be read. It looks in
// a namespace, or in all with "".
func (c *Client) OnNode(ctx context.Context, namespace, node string) (types.NamespacedName, error) {
	all, err := c.Instances(ctx, namespace, "")
	if err != nil {
		return types.NamespacedName{}, err
	}

	for _, in := range all {
		if in.IsRunning() && in.Node == node {
			return in.NamespacedName, nil
		}
	}

	return types.NamespacedName{}, reasons.WithHint("the node is read through the pod of one of "+
		"its VMs; pass --debug-image with an image that has a shell, or run hook-sidecar snapshot "+
		"on the node", fmt.Errorf("no VM that can be read runs on node %q", node))
}

// Node reads the sysfs of a node through a pod that it makes there and deletes. As with kubectl
// debug node/NODE, the pod is bound to the node whatever its taints. Unlike there it mounts nothing
// of the node and needs no privileges: the /sys of any container shows the node's PCI devices. Their
// registers it shows only to root with CAP_SYS_ADMIN (Linux drivers/pci/pci-sysfs.c,
// pci_read_config), which the pod has if it is to read them.
func (c *Client) Node(
	ctx context.Context, namespace, node, image string, registers bool,
) (sysfs fs.FS, err error) {
	pod := snapshotPod(namespace, node, image, registers)
	doing := fmt.Sprintf("read node %s through pod %s/%s", node, namespace, pod.Name)
	_, err = c.query(ctx, doing, Query{
		Resource: "pods", Namespace: namespace, Verb: "create", Body: pod,
	})
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return nil, err // the API server refused it
	}

	defer func() { // also after an interrupt, and where only the answer was lost
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, leftover := c.query(ctx, "delete pod "+pod.Name, Query{
			Resource: "pods", Namespace: namespace, Name: pod.Name, Verb: "delete",
		}); !apierrors.IsNotFound(leftover) {
			err = cmp.Or(leftover, err)
		}
	}()

	return c.snapshotIn(ctx, doing, pod)
}

// snapshotPod returns a pod that prints a snapshot of a node. A log has standard error, too.
func snapshotPod(namespace, node, image string, registers bool) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, "hostdev-snapshot-"+rand.String(5)
	pod.Spec = corev1.PodSpec{
		NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		RestartPolicy:         corev1.RestartPolicyNever,
		ActiveDeadlineSeconds: new(int64(600)), TerminationGracePeriodSeconds: new(int64(0)),
		AutomountServiceAccountToken: new(bool),
		Containers: []corev1.Container{
			{Name: compute, Image: image, Command: []string{
				"sh", "-c", "exec 2> /dev/null\n" + host.Script("/sys", nil),
			}},
		},
	}

	if registers {
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			RunAsUser: new(int64(0)),
			Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_ADMIN"},
			},
		}
	}

	return pod
}

// snapshotIn returns the snapshot that a pod prints, once it runs.
func (c *Client) snapshotIn(
	ctx context.Context, doing string, pod *corev1.Pod,
) (sysfs fs.FS, err error) {
	log := Query{
		Resource:   "pods",
		Namespace:  pod.Namespace,
		Name:       pod.Name,
		Part:       "log",
		Parameters: map[string]string{"container": compute, "follow": "true"},
	}

	for {
		text, err := c.query(ctx, doing, log)
		if err == nil {
			if sysfs, err = host.ParseSnapshot(text); err != nil {
				err = reasons.WithHint("the image has to have sh, as that of busybox has",
					fmt.Errorf("%s: %w", doing, err))
			}
			return sysfs, err
		}

		// the container waits, or the kubelet does not know the pod yet
		if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}

		select {
		case <-ctx.Done():
			return nil, reasons.WithHint("try again, or give it longer with --timeout", err)
		case <-time.After(pollEvery):
		}
	}
}
