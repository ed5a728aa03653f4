package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

	Node       string
	Target     string // node that it is migrating to, "" where it is not
	HasDevices bool   // its spec requests host devices

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

// domainName returns the domain's name, as env.VMI.RelationOf expects it.
func (in Instance) domainName() string { return in.Namespace + "_" + in.Name }

// instance has the fields of a VMI that env.ParseVMI does not read.
type instance struct {
	Spec struct {
		Domain struct {
			Devices struct {
				GPUs        []struct{} `json:"gpus"`
				HostDevices []struct{} `json:"hostDevices"`
				Interfaces  []struct {
					SRIOV *struct{} `json:"sriov"`
				} `json:"interfaces"`
			} `json:"devices"`
		} `json:"domain"`
	} `json:"spec"`
	Status struct {
		Phase          string `json:"phase"`
		NodeName       string `json:"nodeName"`
		RuntimeUser    uint64 `json:"runtimeUser"` // 0 is root
		MigrationState *struct {
			TargetNode string `json:"targetNode"`
		} `json:"migrationState"`
	} `json:"status"`
}

func parseInstance(data []byte) (Instance, error) {
	vmi, err := env.ParseVMI(data)
	if err != nil {
		return Instance{}, err
	}
	var doc instance
	if err := json.Unmarshal(data, &doc); err != nil {
		return Instance{}, fmt.Errorf("parse VMI %s: a field of its status has the wrong type", vmi.NamespacedName)
	}
	in := Instance{VMI: vmi, Node: doc.Status.NodeName, phase: doc.Status.Phase, isRoot: doc.Status.RuntimeUser == 0}
	if vmi.MigrationInProgress {
		in.Target = doc.Status.MigrationState.TargetNode
	}
	d := doc.Spec.Domain.Devices
	in.HasDevices = len(d.GPUs)+len(d.HostDevices) > 0
	for _, nic := range d.Interfaces {
		in.HasDevices = in.HasDevices || nic.SRIOV != nil
	}
	return in, nil
}

// Instance reads a VMI.
func (c *Client) Instance(ctx context.Context, name types.NamespacedName) (Instance, error) {
	data, err := c.get(ctx, fmt.Sprintf("%s/namespaces/%s/virtualmachineinstances/%s", api, name.Namespace, name.Name), nil)
	if apierrors.IsNotFound(err) {
		return Instance{}, c.notRunning(ctx, name, err)
	}
	if err != nil {
		return Instance{}, right{"get", "kubevirt.io", "virtualmachineinstances", name.Namespace}.wrap(fmt.Sprintf("read VMI %s", name), err)
	}
	return parseInstance(data)
}

// notRunning returns the cause of a missing VMI: the cluster has no KubeVirt, there is no
// such VM, or it is stopped.
func (c *Client) notRunning(ctx context.Context, name types.NamespacedName, err error) error {
	if isUnknownPath(err) {
		return reasons.WithHint("name another cluster with --context", fmt.Errorf("read VMI %s: the cluster has no KubeVirt: %s is not served", name, api))
	}
	_, ofVM := c.get(ctx, fmt.Sprintf("%s/namespaces/%s/virtualmachines/%s", api, name.Namespace, name.Name), nil)
	switch {
	case ofVM == nil:
		return reasons.WithHint("start it, and try again: virtctl start "+name.Name+" -n "+name.Namespace, fmt.Errorf("VM %s is stopped", name))
	case apierrors.IsNotFound(ofVM):
		return reasons.WithHint("name its namespace with -n; kubectl get vmi -A lists all that run", fmt.Errorf("there is no VM %s", name))
	}
	return reasons.WithHint("start it, or name its namespace with -n; kubectl get vmi -A lists all that run", fmt.Errorf("VM %s is not running or does not exist", name))
}

// isUnknownPath reports whether the API server does not serve a path: its error then names
// no object.
func isUnknownPath(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

// pageSize is the number of VMIs per answer, as kubectl's --chunk-size.
const pageSize = "500"

// Instances lists the VMIs of a namespace, "" for all.
func (c *Client) Instances(ctx context.Context, namespace string) ([]Instance, error) {
	path := api + "/virtualmachineinstances"
	if namespace != "" {
		path = fmt.Sprintf("%s/namespaces/%s/virtualmachineinstances", api, namespace)
	}
	var all []Instance
	for next := ""; ; {
		data, err := c.get(ctx, path, map[string]string{"limit": pageSize, "continue": next})
		if isUnknownPath(err) {
			return nil, reasons.WithHint("name another cluster with --context", fmt.Errorf("list VMIs: the cluster has no KubeVirt: %s is not served", api))
		}
		if err != nil {
			return nil, right{"list", "kubevirt.io", "virtualmachineinstances", namespace}.wrap("list VMIs", err)
		}
		var list struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("list VMIs: %w", err)
		}
		for _, item := range list.Items {
			in, err := parseInstance(item)
			if err != nil {
				return nil, err
			}
			all = append(all, in)
		}
		if next = list.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}
