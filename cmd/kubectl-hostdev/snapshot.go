package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/cluster"
)

func (a *app) newSnapshot() *cobra.Command {
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "snapshot VM|node/NODE [flags]",
		Short: "Save the topology of a VM's node to a file",
		Long: `snapshot writes the part of a node's /sys that hook-sidecar reads to one text file,
which its commands accept as --sysfs. It has no serial numbers, MAC addresses, machine
UUIDs or host names; UUIDs of mediated devices stay, because they are their names.

A node is read through the pod of a VM on it: of one in the namespace, or of any
namespace whose VMs you may list.

` + exitStatus,
		Example: `  kubectl hostdev snapshot dgx -n ml --output-file host.txtar
  kubectl hostdev snapshot node/gpu-7 > host.txtar`,
		Args: oneVM,
	}
	output.AddAsKubectl(cmd, cli.Text)
	output.Format = cli.Text // whatever the name of the file
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		return a.snapshot(cmd.Context(), args[0], output.File)
	}
	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) snapshot(ctx context.Context, argument, output string) error {
	client, namespace, err := a.connect()
	if err != nil {
		return err
	}
	name, err := a.snapshotVM(ctx, client, namespace, argument)
	if err != nil {
		return err
	}
	vm, err := a.read(ctx, client, name, cluster.WholeNode)
	if err != nil {
		return err
	}
	// Taken again for one form of all snapshots.
	return a.WriteSnapshot(output, vm.Host, "", "/sys in a virt-launcher pod")
}

// snapshotVM returns the VM through whose pod a node is read.
func (a *app) snapshotVM(ctx context.Context, client *cluster.Client, namespace, argument string) (types.NamespacedName, error) {
	kind, node, _ := strings.Cut(argument, "/")
	if kind != "node" && kind != "nodes" || node == "" {
		return vmName(namespace, argument)
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	name, err := client.OnNode(ctx, namespace, node)
	if err != nil {
		name, err = client.OnNode(ctx, "", node)
	}
	return name, err
}
