package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"kubevirt.io/api/core"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

const kubeVirt = core.GroupName

// The resources of a VM and of its VMI, which KubeVirt serves in v1 since 0.36.
const (
	VMs  = "virtualmachines"
	VMIs = "virtualmachineinstances"
)

// Object returns the query for one of KubeVirt's objects: the VM or the VMI of a name.
func Object(resource string, name types.NamespacedName) Query {
	return Query{
		Group: kubeVirt, Resource: resource, Namespace: name.Namespace, Name: name.Name,
	}
}

// Instance is a VirtualMachineInstance.
type Instance struct {
	*kubevirt.VMI
	kubevirt.Run

	MayHaveDevices bool  // its spec requests host devices, or is not known
	Err            error // why the VMI cannot be read; it has its name and node alone then
}

// IsRunning reports whether the VM runs.
func (in Instance) IsRunning() bool { return in.Phase == string(v1.Running) }

// uri returns the URI of virt-launcher's libvirt (KubeVirt
// cmd/virt-launcher/virt-launcher.go, createLibvirtConnection).
func (in Instance) uri() string {
	if in.IsRoot {
		return "qemu:///system"
	}
	return "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"
}

// ParseInstance reads a VMI. Its error is the instance's, because one VMI of a list must not
// hide the others.
func ParseInstance(data []byte) Instance {
	name, run, err := kubevirt.ParseRun(data)
	vmi, vmiErr := kubevirt.ParseVMI(data)
	if err = cmp.Or(vmiErr, err); err != nil {
		return Instance{
			VMI: &kubevirt.VMI{NamespacedName: name}, Run: kubevirt.Run{Node: run.Node},
			MayHaveDevices: true,
			Err:            fmt.Errorf("read VMI %s: %w", name, err),
		}
	}

	isSRIOV := func(nic kubevirt.Interface) bool { return nic.SRIOV != nil }
	return Instance{
		VMI: vmi, Run: run,
		MayHaveDevices: len(vmi.GPUs)+len(vmi.HostDevices) > 0 ||
			slices.ContainsFunc(vmi.Interfaces, isSRIOV),
	}
}

// Named returns the instance of a VM whose VMI was not read.
func Named(name types.NamespacedName) Instance {
	return Instance{VMI: &kubevirt.VMI{NamespacedName: name}}
}

// Instance reads a VMI.
func (c *Client) Instance(ctx context.Context, name types.NamespacedName) (Instance, error) {
	data, err := c.query(ctx, fmt.Sprintf("read VMI %s", name), Object(VMIs, name))
	if apierrors.IsNotFound(err) {
		return Instance{}, c.notRunning(ctx, name)
	}
	if err != nil {
		return Instance{}, err
	}

	in := ParseInstance(data)
	return in, in.Err
}

// notRunning returns the cause of a missing VMI: there is no such VM, or it has none yet.
func (c *Client) notRunning(ctx context.Context, name types.NamespacedName) error {
	_, err := c.Get(ctx, Object(VMs, name))
	switch {
	case err == nil:
		return reasons.WithHint("start it, and try again: virtctl start "+name.Name+" -n "+
			name.Namespace+
			"; kubectl get vm shows its status", fmt.Errorf("VM %s has no VMI: it is stopped, or "+
			"waits to start", name))
	case apierrors.IsNotFound(err):
		return reasons.WithHint(c.suggestion(ctx, name)+
			"name its namespace with -n; kubectl get vmi -A lists all that run",
			fmt.Errorf("there is no VM %s", name))
	}

	return reasons.WithHint("start it, or name its namespace with -n; kubectl get vmi -A lists "+
		"all that run", fmt.Errorf("VM %s is not running or does not exist", name))
}

// suggestion returns "did you mean NAME? " for a mistyped VM.
func (c *Client) suggestion(ctx context.Context, name types.NamespacedName) string {
	all, _ := c.Instances(ctx, name.Namespace, "") // whoever may not list them gets no suggestion
	return words.DidYouMean(name.Name, topology.Map(all, func(in Instance) string {
		return in.Name
	}), "", " ")
}

// ResourceName returns a VMI's name as kubectl prints it with -o name.
func ResourceName(name string) string { return "virtualmachineinstance.kubevirt.io/" + name }

// pageSize is the number of VMIs per answer, as kubectl's --chunk-size.
const pageSize = "500"

// Instances lists the VMIs of a namespace, "" for all, that have the labels of a selector. One
// that cannot be read has its error.
func (c *Client) Instances(ctx context.Context, namespace, selector string) ([]Instance, error) {
	var all []Instance
	for next := ""; ; {
		q := Query{
			Group:     kubeVirt,
			Resource:  VMIs,
			Namespace: namespace,
			Parameters: map[string]string{
				"limit": pageSize, "continue": next, "labelSelector": selector,
			},
		}

		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := c.decode(ctx, "list VMIs", q, &list); err != nil {
			return nil, err
		}

		for _, item := range list.Items {
			all = append(all, ParseInstance(item))
		}

		if next = list.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}
