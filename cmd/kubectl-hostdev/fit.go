package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"kubevirt.io/api/core"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/fit"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	cli.Output
	wish        fit.Wish
	files, from []string
	node        string
	claim       bool
	snapshots   map[string]string
}

func (a *app) newFit() *cobra.Command {
	var flags fitFlags
	cmd := &cobra.Command{
		Use:   "fit (-f FILE | --gpus N [--nics N]) [flags]",
		Short: "Count how often a VM with devices fits on each node, and how near they would be",
		Long: `fit prints per node how many VMs fit now, how many would if nothing ran, how near to
each other the devices of the next one would be, on the host and in the guest with the
hook, and why none fits. The VM is one in a file, with the templates of its claims, or
a number of GPUs and NICs with their DeviceClasses. The scheduler's own code allocates.

Nobody can promise which devices of a device plugin kubelet gives: of a node with a
--snapshot fit prints the nearest and the furthest of those that no VM holds.
See ` + reasons.Page("docs/aligned-devices.md") + `.

` + exitStatus,
		Example: `  kubectl hostdev fit -f dgx.yaml
  kubectl hostdev fit --gpus 4 --gpu-class vfio.gpu.nvidia.com --nics 4 --nic-class sriov --claim
  kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims -A -o yaml > cluster.yaml
  kubectl hostdev fit -f dgx.yaml --from cluster.yaml --node gpu-7`,
		Args: cli.NoArguments,
	}
	f := cmd.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "a VM, and templates of its claims; may be repeated")
	f.IntVar(&flags.wish.GPUs, "gpus", 0, "number of GPUs")
	f.IntVar(&flags.wish.NICs, "nics", 0, "number of NICs")
	f.StringVar(&flags.wish.GPUClass, "gpu-class", "", "DeviceClass of the GPUs")
	f.StringVar(&flags.wish.NICClass, "nic-class", "", "DeviceClass of the NICs")
	f.BoolVar(&flags.wish.Pair, "pair", true, "each GPU shares a PCIe root with its NIC, where a node can meet it")
	f.BoolVar(&flags.wish.OneSocket, "one-socket", false, "all devices are of one NUMA node, where a node can meet it")
	f.BoolVar(&flags.claim, "claim", false, "print a ResourceClaimTemplate for the numbers, and a VM that uses it")
	f.StringVar(&flags.node, "node", "", "this node alone, and its devices")
	f.StringArrayVar(&flags.from, "from", nil, "read the cluster's objects from this file instead; may be repeated")
	f.StringToStringVar(&flags.snapshots, "snapshot", nil, "NODE=FILE: a node's snapshot; may be repeated")
	flags.AddAsKubectl(cmd, cli.Text, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		hasFile, hasNumbers := len(flags.files) > 0, flags.wish.GPUs+flags.wish.NICs > 0
		if flags.wish.GPUs < 0 || flags.wish.NICs < 0 || hasNumbers == hasFile || flags.claim && hasFile {
			return cli.Failed(cli.SeeHelp(cmd), errors.New("pass either -f FILE, or --gpus and --nics and, if you like, --claim"))
		}
		if flags.claim {
			flags.Format = cli.Text // whatever the name of the file
		}
		if err := flags.Check(); err != nil {
			return err
		}
		return a.fit(cmd.Context(), flags)
	}
	return cmd
}

func (a *app) fit(ctx context.Context, flags fitFlags) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	objects, err := a.readFleet(ctx, flags)
	if err != nil {
		return err
	}
	if flags.node != "" {
		objects.Nodes = slices.DeleteFunc(objects.Nodes, func(n *corev1.Node) bool { return n.Name != flags.node })
	}
	if len(objects.Nodes) == 0 {
		return errors.New("read nodes: there is none, or not that of --node")
	}
	fleet, claim, answer := fit.New(objects), "", fit.Answer{}
	if len(flags.files) > 0 {
		var shape fit.Shape
		if shape, err = fit.NewShape(objects); err == nil {
			answer, err = fleet.Count(ctx, shape)
		}
	} else {
		answer, claim, err = flags.wish.Count(ctx, fleet)
	}
	if err != nil {
		return err
	}
	return a.WriteAs(flags.Output, answer, func(b *bytes.Buffer) error {
		if !flags.claim {
			claim = answer.Text()
		}
		if claim == "" {
			return fmt.Errorf("write a claim: %s", strings.Join(answer.Notes, "; "))
		}
		b.WriteString(claim)
		return nil
	})
}

// readFleet reads the files and, where they are not the cluster's, the cluster: as far as the user
// may.
func (a *app) readFleet(ctx context.Context, flags fitFlags) (objects fit.Objects, err error) {
	var lists [][]byte
	for _, file := range slices.Concat(flags.files, flags.from) {
		data, err := os.ReadFile(file)
		if err != nil {
			return objects, err
		}
		lists = append(lists, data)
	}
	var client *cluster.Client
	if len(flags.from) == 0 {
		if client, _, err = a.connect(); err != nil {
			return objects, err
		}
		lists = slices.Concat(lists, a.list(ctx, client, "", "nodes", "pods"), a.list(ctx, client, core.GroupName, "kubevirts"),
			a.list(ctx, client, resourceapi.GroupName, "resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"))
	}
	if objects, err = fit.Parse(lists...); err != nil {
		return objects, err
	}
	objects.Hosts = map[string]*topology.Host{}
	for node, file := range flags.snapshots {
		sysfs, err := host.OpenSysfs(file)
		if err != nil {
			return objects, err
		}
		objects.Hosts[node], _ = host.Read(sysfs, nil, host.All)
	}
	if client != nil && len(objects.Hosts) > 0 {
		objects.Held, err = a.readHeld(ctx, client, objects.Hosts)
	}
	return objects, err
}

// list reads objects, as far as the user may.
func (a *app) list(ctx context.Context, client *cluster.Client, group string, resources ...string) (lists [][]byte) {
	for _, resource := range resources {
		data, err := client.Get(ctx, cluster.Query{Group: group, Resource: resource})
		if err != nil {
			a.Say("warning: not read: %s", reasons.Text(err))
		}
		lists = append(lists, data)
	}
	return lists
}

// claims returns which claims gave a VM its devices, and which pairs nearer devices would have.
func (a *app) claims(ctx context.Context, client *cluster.Client, vm cluster.VM) (map[topology.DeviceID]string, string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	objects, err := fit.Parse(a.list(ctx, client, resourceapi.GroupName, "resourceslices", "deviceclasses", "resourceclaims")...)
	node := corev1.Node{}
	node.Name = vm.Node
	given, nearer := fit.New(objects).Given(&node, vm.Namespace, vm.Pod)
	return given, nearer, err
}

// readHeld reads which devices the VMs have that run on nodes with a snapshot.
func (a *app) readHeld(ctx context.Context, client *cluster.Client, hosts map[string]*topology.Host) (map[string]string, error) {
	all, err := client.Instances(ctx, "", "")
	held := map[string]string{}
	for _, in := range all {
		if hosts[in.Node] == nil || !in.MayHaveDevices {
			continue
		}
		vm, err := client.VM(ctx, in, cluster.DevicesOnly)
		if err != nil {
			a.Say("warning: the devices of VM %s count as free: %v", in.NamespacedName, err)
			continue
		}
		for _, id := range vm.IDs {
			held[in.Node+" "+id.String()] = in.String()
		}
	}
	return held, err
}
