package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
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
	node, image string
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
	f.StringVar(&flags.image, "debug-image", "", "as in snapshot, of each node without a --snapshot")
	flags.AddAsKubectl(cmd, cli.Text, cli.JSON, cli.YAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		hasFile, hasNumbers := len(flags.files) > 0, flags.wish.GPUs+flags.wish.NICs > 0
		switch {
		case flags.wish.GPUs < 0 || flags.wish.NICs < 0 || hasNumbers == hasFile || flags.claim && hasFile:
			return cli.Failed(cli.SeeHelp(cmd), errors.New("pass either -f FILE, or --gpus and --nics and, if you like, --claim"))
		case flags.wish.GPUs > 0 && flags.wish.GPUClass == "" || flags.wish.NICs > 0 && flags.wish.NICClass == "":
			return cli.Failed("kubectl get deviceclasses lists them", errors.New("--gpus requires --gpu-class, and --nics requires --nic-class"))
		case flags.image != "" && len(flags.from) > 0:
			return cli.Failed("leave out one of them", errors.New("--debug-image cannot be combined with --from"))
		case flags.claim:
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
	objects, err := a.readFleet(ctx, flags)
	if err != nil {
		return err
	}
	fleet, claim, answer := fit.New(objects), "", fit.Answer{}
	if len(flags.files) == 0 {
		answer, claim, err = flags.wish.Count(ctx, fleet)
	} else if shape, shapeErr := fit.NewShape(objects); shapeErr != nil {
		err = shapeErr
	} else {
		answer, err = fleet.Count(ctx, shape)
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
	names := topology.Map(objects.Nodes, func(n *corev1.Node) string { return n.Name })
	for _, name := range slices.Sorted(maps.Keys(flags.snapshots)) {
		if !slices.Contains(names, name) {
			return objects, cli.Failed(topology.DidYouMean(name, names, "", " ")+"kubectl get nodes lists them", fmt.Errorf("--snapshot %s=%s: no node has this name", name, flags.snapshots[name]))
		}
	}
	objects.Nodes = slices.DeleteFunc(objects.Nodes, func(n *corev1.Node) bool { return flags.node != "" && n.Name != flags.node })
	if len(objects.Nodes) == 0 {
		return objects, errors.New("read nodes: there is none, or not that of --node")
	}
	objects.Hosts = map[string]*topology.Host{}
	for _, n := range objects.Nodes {
		if file, isFile := flags.snapshots[n.Name]; isFile {
			sysfs, err := host.OpenSysfs(file)
			if err != nil {
				return objects, err
			}
			objects.Hosts[n.Name], _ = host.Read(sysfs, nil, host.All)
		} else if flags.image != "" {
			sysfs, err := a.readNode(ctx, n.Name, flags.image)
			if err != nil {
				a.Say("warning: not read: %s", reasons.Text(err))
				continue
			}
			objects.Hosts[n.Name], _ = host.Read(sysfs, nil, host.All)
		}
	}
	if client != nil && len(objects.Hosts) > 0 {
		objects.Held, err = a.readHeld(ctx, objects.Hosts)
	}
	return objects, err
}

// list reads objects, as far as the user may.
func (a *app) list(ctx context.Context, client *cluster.Client, group string, resources ...string) (lists [][]byte) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for _, resource := range resources {
		data, err := client.Get(ctx, cluster.Query{Group: group, Resource: resource})
		if err != nil {
			a.Say("warning: not read: %s", reasons.Text(err))
		}
		lists = append(lists, data)
	}
	return lists
}

// readHeld reads which devices the VMs have that run on nodes that were read.
func (a *app) readHeld(ctx context.Context, hosts map[string]*topology.Host) (map[string]string, error) {
	client, all, err := a.instances(ctx, fleetFlags{all: true})
	all = slices.DeleteFunc(all, func(in cluster.Instance) bool { return hosts[in.Node] == nil })
	read := func(in cluster.Instance) (cluster.VM, error) {
		return a.read(ctx, client, in.NamespacedName, cluster.DevicesOnly)
	}
	held := map[string]string{}
	forEach(a, all, 8, read, func(vm cluster.VM, err error) {
		if err != nil {
			a.Say("warning: devices of a VM count as free: %s", reasons.Text(err))
		}
		for _, id := range vm.IDs {
			held[vm.Node+" "+id.String()] = vm.String()
		}
	})
	return held, err
}
