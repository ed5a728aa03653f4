package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/fit"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	wish                 fit.Wish
	files, from          []string
	node, format, output string
	claim                bool
	snapshots            map[string]string
}

func (a *app) newFit() *cobra.Command {
	var flags fitFlags
	cmd := &cobra.Command{
		Use:   "fit (-f FILE | --gpus N [--nics N]) [flags]",
		Short: "Count how often a VM with devices fits on each node, and how near they would be",
		Long: `fit prints per node how many VMs of a shape fit now, how many would if nothing ran,
how near to each other the devices of the next one would be, and why none fits.

The shape is that of a VM in a file, with the claims that it names, or a number of GPUs
and NICs with their classes: names of DeviceClasses, or resources of device plugins such
as nvidia.com/GH100. Devices of claims are allocated as the scheduler does it, by its own
code. Which devices of a plugin a VM gets is kubelet's choice, and nobody can promise it:
with a --snapshot of the node fit prints the nearest and the furthest, also with topology
manager policy single-numa-node.

Pairs of claims are PHB where two devices share a PCIe root: PIX, PXB or PHB on the host, of which
ResourceSlices do not tell which. With --claim fit prints a ResourceClaimTemplate for the
numbers: with one constraint per pair of GPU and NIC, where a node can meet it.

Dedicated CPUs, memory, huge pages, taints and cordons count; KubeVirt's overhead does not.

` + exitStatus,
		Example: `  kubectl hostdev fit -f dgx.yaml
  kubectl hostdev fit --gpus 4 --gpu-class vfio.gpu.nvidia.com --nics 4 --nic-class sriov
  kubectl hostdev fit --gpus 4 --gpu-class vfio.gpu.nvidia.com --nics 4 --nic-class sriov --claim
  kubectl get nodes,pods,resourceslices,deviceclasses,resourceclaims -A -o yaml > cluster.yaml
  kubectl hostdev fit -f dgx.yaml --from cluster.yaml --node gpu-7`,
		Args: cli.NoArguments,
	}
	f := cmd.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "a VM, and its claims or templates; may be repeated")
	f.IntVar(&flags.wish.GPUs, "gpus", 0, "number of GPUs")
	f.IntVar(&flags.wish.NICs, "nics", 0, "number of NICs")
	f.StringVar(&flags.wish.GPUClass, "gpu-class", "", "device class or resource of the GPUs")
	f.StringVar(&flags.wish.NICClass, "nic-class", "", "device class or resource of the NICs")
	f.StringVar(&flags.wish.Pair, "pair", fit.PairAuto, "which share a PCIe root: root (each GPU and its NIC), all, none, or auto (as\nroot where a node can meet it)")
	f.BoolVar(&flags.wish.OneSocket, "one-socket", false, "all devices on one NUMA node")
	f.BoolVar(&flags.claim, "claim", false, "print a ResourceClaimTemplate for the numbers")
	f.StringVar(&flags.node, "node", "", "show the devices of this node")
	f.StringArrayVar(&flags.from, "from", nil, "read the cluster's objects from this file instead; may be repeated")
	f.StringToStringVar(&flags.snapshots, "snapshot", nil, "NODE=FILE: a node's snapshot, for what device plugins may give; may be repeated")
	f.StringVar(&flags.format, "format", cli.Text, "text or json")
	cli.AddOutput(f, &flags.output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.fit(cmd.Context(), flags) }
	cli.Complete(cmd, "format", cli.Text, cli.JSON)
	cli.Complete(cmd, "pair", fit.Pairings()...)
	return cmd
}

// check checks the flags of fit.
func (f *fitFlags) check() error {
	isNumber := f.wish.GPUs > 0 || f.wish.NICs > 0
	switch {
	case f.wish.GPUs < 0 || f.wish.NICs < 0 || isNumber == (len(f.files) > 0):
		return cli.Failed("see kubectl hostdev fit --help", errors.New("pass either -f FILE or --gpus and --nics"))
	case f.claim && (!isNumber || f.node != "" || f.format != cli.Text):
		return cli.Failed("see kubectl hostdev fit --help", errors.New("--claim takes --gpus and --nics, and neither --node nor --format"))
	case !slices.Contains(fit.Pairings(), f.wish.Pair):
		return fmt.Errorf("invalid --pair %q: must be one of %s", topology.Abridge(f.wish.Pair), strings.Join(fit.Pairings(), ", "))
	}
	return cli.CheckFormat(f.format, cli.Text, cli.JSON)
}

func (a *app) fit(ctx context.Context, flags fitFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	objects, unread, err := a.readFleet(ctx, flags)
	if err != nil {
		return err
	}
	fleet := fit.New(objects)
	shape := flags.wish.Shape(ctx, fleet)
	if len(flags.files) > 0 {
		shape, err = fit.NewShape(objects)
	}
	shape.Unread = append(shape.Unread, unread...)
	var answer fit.Answer
	if err == nil {
		answer, err = fleet.Count(ctx, shape)
	}
	if err != nil {
		for _, what := range unread { // which may be the cause
			a.Say("warning: %s", what)
		}
		return err
	}
	show := answer.Table
	switch {
	case flags.claim:
		show = shape.Claim
	case flags.node != "":
		i := slices.IndexFunc(answer.Nodes, func(n fit.Node) bool { return n.Name == flags.node })
		if i < 0 {
			return cli.Failed("leave out --node for all nodes", fmt.Errorf("there is no node %q", flags.node))
		}
		answer.Nodes = answer.Nodes[i : i+1]
		show = answer.Nodes[0].Picture
	}
	return a.WriteAs(flags.format, flags.output, answer, show)
}

// readFleet reads the files, and the cluster where they do not stand for it.
func (a *app) readFleet(ctx context.Context, flags fitFlags) (objects fit.Objects, unread []string, err error) {
	for _, file := range slices.Concat(flags.files, flags.from) {
		data, err := os.ReadFile(file)
		if err == nil {
			err = objects.Add(data)
		}
		if err != nil {
			return objects, nil, fmt.Errorf("read %s: %w", file, host.WithoutPath(err))
		}
	}
	objects.Hosts = map[string]*topology.Host{}
	for node, file := range flags.snapshots {
		sysfs, err := host.OpenSysfs(file)
		if err != nil {
			return objects, nil, err
		}
		objects.Hosts[node], _ = host.Read(sysfs, nil, host.All)
	}
	if len(flags.from) > 0 {
		return objects, nil, nil
	}
	client, namespace, err := a.connect()
	if err != nil {
		return objects, nil, err
	}
	for _, vm := range objects.VMs {
		vm.Namespace = cmp.Or(vm.Namespace, namespace)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	unread, err = client.Fleet(ctx, objects.Add)
	return objects, unread, err
}
