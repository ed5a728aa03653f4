package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/reasons"
)

// api is the path of KubeVirt's resources; KubeVirt serves v1 since 0.36.
const api = "/apis/kubevirt.io/v1"

// Instance is a VirtualMachineInstance.
type Instance struct {
	*env.VMI

	Node           string
	Target         string // node that it is migrating to, "" where it is not
	MayHaveDevices bool   // its spec requests host devices, or is not known
	Err            error  // why the VMI cannot be read; VMI has its name alone then

	phase  string
	isRoot bool // virt-launcher's libvirt runs as root
}

func (in Instance) isRunning() bool { return in.phase == string(v1.Running) }

// uri returns the URI of virt-launcher's libvirt (KubeVirt
// cmd/virt-launcher/virt-launcher.go, createLibvirtConnection).
func (in Instance) uri() string {
	if in.isRoot {
		return "qemu:///system"
	}
	return "qemu+unix:///session?socket=/var/run/libvirt/virtqemud-sock"
}

// domainName returns the domain's name, as env.VMI.Doubt expects it.
func (in Instance) domainName() string { return in.Namespace + "_" + in.Name }

// instance has the fields of a VMI that env.ParseVMI does not read, and those that show
// which VM it is where ParseVMI fails.
type instance struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Phase          string `json:"phase"`
		NodeName       string `json:"nodeName"`
		RuntimeUser    uint64 `json:"runtimeUser"` // 0 is root
		MigrationState *struct {
			TargetNode string `json:"targetNode"`
		} `json:"migrationState"`
	} `json:"status"`
}

// parseInstance reads a VMI. Its error is the instance's, because one VMI of a list must not
// hide the others.
func parseInstance(data []byte) Instance {
	var doc instance
	err := json.Unmarshal(data, &doc) // goes on after a field of a wrong type
	name := types.NamespacedName{Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name}
	vmi, vmiErr := env.ParseVMI(data)
	if err = cmp.Or(vmiErr, err); err != nil {
		return Instance{VMI: &env.VMI{NamespacedName: name}, Node: doc.Status.NodeName, MayHaveDevices: true, Err: fmt.Errorf("read VMI %s: %w", name, err)}
	}
	in := Instance{VMI: vmi, Node: doc.Status.NodeName, phase: doc.Status.Phase, isRoot: doc.Status.RuntimeUser == 0}
	isSRIOV := func(nic env.Interface) bool { return nic.SRIOV != nil }
	in.MayHaveDevices = len(vmi.GPUs)+len(vmi.HostDevices) > 0 || slices.ContainsFunc(vmi.Interfaces, isSRIOV)
	if vmi.MigrationInProgress {
		in.Target = doc.Status.MigrationState.TargetNode
	}
	return in
}

// Instance reads a VMI.
func (c *Client) Instance(ctx context.Context, name types.NamespacedName) (Instance, error) {
	data, err := c.get(ctx, fmt.Sprintf("%s/namespaces/%s/virtualmachineinstances/%s", api, name.Namespace, name.Name), nil)
	if apierrors.IsNotFound(err) && !isUnknownPath(err) {
		return Instance{}, c.notRunning(ctx, name)
	}
	if err != nil {
		return Instance{}, right{"get", "kubevirt.io", "virtualmachineinstances", name.Namespace}.wrap(fmt.Sprintf("read VMI %s", name), err)
	}
	in := parseInstance(data)
	return in, in.Err
}

// notRunning returns the cause of a missing VMI: there is no such VM, or it is stopped.
func (c *Client) notRunning(ctx context.Context, name types.NamespacedName) error {
	_, ofVM := c.get(ctx, fmt.Sprintf("%s/namespaces/%s/virtualmachines/%s", api, name.Namespace, name.Name), nil)
	switch {
	case ofVM == nil:
		return reasons.WithHint("start it, and try again: virtctl start "+name.Name+" -n "+name.Namespace, fmt.Errorf("VM %s is stopped", name))
	case apierrors.IsNotFound(ofVM):
		return reasons.WithHint("name its namespace with -n; kubectl get vmi -A lists all that run", fmt.Errorf("there is no VM %s", name))
	}
	return reasons.WithHint("start it, or name its namespace with -n; kubectl get vmi -A lists all that run", fmt.Errorf("VM %s is not running or does not exist", name))
}

// Instances lists the VMIs of a namespace, "" for all. One that cannot be read has its error.
func (c *Client) Instances(ctx context.Context, namespace string) ([]Instance, error) {
	path := api + "/virtualmachineinstances"
	if namespace != "" {
		path = api + "/namespaces/" + namespace + "/virtualmachineinstances"
	}
	var all []Instance
	err := c.pages(ctx, path, func(data []byte) error {
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		err := json.Unmarshal(data, &list)
		for _, item := range list.Items {
			all = append(all, parseInstance(item))
		}
		return err
	})
	if err != nil {
		return nil, right{"list", "kubevirt.io", "virtualmachineinstances", namespace}.wrap("list VMIs", err)
	}
	return all, nil
}
