package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
)

// VM is what was read of a running VM.
type VM struct {
	Instance
	Pod    string
	Domain []byte
	Host   fs.FS // a snapshot of its node, or of the part that concerns its devices
	// Hook is true where a container of the pod answers as this hook.
	Hook bool

	pod *corev1.Pod
}

// Scope is how much of the node is read.
type Scope int

// The scopes.
const (
	DevicesOnly Scope = iota // what concerns the domain's devices
	WholeNode
)

// Limits of what a pod may print: the domain as serve accepts it, the host as a
// snapshot file (pkg/env).
const (
	maxDomain   = 8 << 20
	maxSnapshot = 16 << 20
)

// VM reads a running VM.
func (c *Client) VM(ctx context.Context, in Instance, scope Scope) (VM, error) {
	pod, err := c.launcher(ctx, in)
	if err != nil {
		return VM{}, err
	}
	vm := VM{Instance: in, Pod: pod.Name, pod: pod}
	if vm.Domain, err = c.domain(ctx, pod, in); err != nil {
		return vm, err
	}
	var ids []topology.DeviceID
	if scope == DevicesOnly {
		if ids, err = devices(vm.Domain); err != nil || len(ids) == 0 {
			vm.Host = noHost{}
			return vm, err
		}
	}
	vm.Host, vm.Hook, err = c.host(ctx, pod, ids)
	return vm, err
}

// Target is the node that a VM is migrating to, "" where it is not.
func (in Instance) Target() string { return in.target }

// uri is how virt-launcher itself connects to its libvirt (KubeVirt
// cmd/virt-launcher/virt-launcher.go, createLibvirtConnection).
func (in Instance) uri() string {
	if in.isRoot {
		return "qemu:///system"
	}
	return "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"
}

// domainName is the domain's name: see env.VMI.RelationOf.
func (in Instance) domainName() string { return in.Namespace + "_" + in.Name }

// domain reads the domain as libvirt runs it.
func (c *Client) domain(ctx context.Context, pod *corev1.Pod, in Instance) ([]byte, error) {
	xml, err := c.exec(ctx, pod, command{container: compute, words: []string{"virsh", "-q", "-c", in.uri(), "dumpxml", in.domainName()}, limit: maxDomain})
	if err != nil {
		return nil, withoutProgram(err, "the pod's image has no virsh, so it is not KubeVirt's virt-launcher; pass the domain to hook-sidecar explain --domain")
	}
	return xml, nil
}

// Exit statuses of a program that a shell or a container runtime cannot run (POSIX.1-2017,
// 2.8.2), and what a runtime says that has an error in place of a status (runc
// libcontainer/init_linux.go).
const (
	cannotRun     = 126
	notFound      = 127
	notFoundError = "executable file not found in $PATH"
)

// withoutProgram gives the error of a program that is not in the container a remedy.
func withoutProgram(err error, remedy string) error {
	var exit *exitError
	isMissing := errors.As(err, &exit) && (exit.code == cannotRun || exit.code == notFound)
	if isMissing || strings.Contains(err.Error(), notFoundError) {
		return &Error{err, remedy}
	}
	return err
}

// devices are the devices of a domain that the host has to be read for.
func devices(xml []byte) ([]topology.DeviceID, error) {
	d, err := domain.Parse(xml)
	if err != nil {
		return nil, fmt.Errorf("parse domain: %w", err)
	}
	return placement.Candidates(d, nil), nil
}

// host reads the node's sysfs: by this hook, where a container of the pod has it, else
// by a script in compute. Without devices all of it is read.
func (c *Client) host(ctx context.Context, pod *corev1.Pod, ids []topology.DeviceID) (sysfs fs.FS, isHook bool, err error) {
	for _, name := range sidecars(pod) {
		text, err := c.exec(ctx, pod, command{container: name, words: []string{"hook-sidecar", "snapshot"}, limit: maxSnapshot})
		if err != nil {
			continue // another hook's; if it is not, compute has the same error
		}
		if sysfs, err := host.ParseSnapshot(text); err == nil {
			return sysfs, true, nil
		}
	}
	text, err := c.exec(ctx, pod, command{container: compute, words: []string{"sh", "-s"}, input: host.Script("/sys", ids), limit: maxSnapshot})
	if err != nil {
		return nil, false, withoutProgram(err, "the pod's image has no shell; take a snapshot on its node: hook-sidecar snapshot")
	}
	sysfs, err = host.ParseSnapshot(text)
	if err != nil {
		return nil, false, fmt.Errorf("read the sysfs of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return sysfs, false, nil
}

// noHost is a host of which nothing is read.
type noHost struct{}

// Open finds nothing.
func (noHost) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// OnNode is a VM that runs on a node, for a snapshot of the node. The VMIs are those of
// a namespace, "" for all.
func (c *Client) OnNode(ctx context.Context, namespace, node string) (Instance, error) {
	all, err := c.Instances(ctx, namespace)
	if err != nil {
		return Instance{}, err
	}
	for _, in := range all {
		if in.isRunning() && in.Node == node {
			return in, nil
		}
	}
	return Instance{}, &Error{fmt.Errorf("no VM that you may see runs on node %q", node), "the node is read through the pod of one of its VMs; run hook-sidecar snapshot on the node instead"}
}
