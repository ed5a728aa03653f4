package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
)

func (a *app) newSnapshot() *cobra.Command {
	var output cli.Output
	var image string
	cmd := &cobra.Command{
		Use:   "snapshot VM|node/NODE [flags]",
		Short: "Save the topology of a VM's node to a file",
		Long: `snapshot writes the part of a node's /sys that hook-sidecar reads to one text file,
which its commands accept as --sysfs. It has no serial numbers, MAC addresses, machine
UUIDs or host names; UUIDs of mediated devices stay, because they are their names.

A node is read through the pod of a VM on it: of one in the namespace, or of any
namespace whose VMs you may list. With --debug-image it is read through a pod that
snapshot makes on the node, in the namespace, and deletes. Unlike that of kubectl
debug the pod has no privileges. This needs the ClusterRole hostdev-node of
` + reasons.Page("manifests/kubectl/clusterrole.yaml") + `.

` + exitStatus,
		Example: `  kubectl hostdev snapshot dgx -n ml --output-file host.txtar
  kubectl hostdev snapshot node/gpu-7 > host.txtar
  kubectl hostdev snapshot node/gpu-8 --debug-image busybox > host.txtar`,
		Args: oneVM,
	}

	output.Add(cmd, cli.Text)
	output.Format = cli.Text // whatever the name of the file
	cmd.Flags().StringVar(&image, "debug-image", "",
		"read the node through a pod with this image, which needs a shell, such as busybox")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		return a.snapshot(cmd.Context(), args[0], image, output.File)
	}

	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

func (a *app) snapshot(ctx context.Context, argument, image, output string) error {
	var vm cluster.RunningVM
	var err error
	kind, node, _ := strings.Cut(argument, "/")
	switch isNode := (kind == "node" || kind == "nodes") && node != ""; {
	case isNode:
		vm.Host, err = a.readNode(ctx, node, image)
	case image != "":
		err = cli.Failed("name it as in node/gpu-8", errors.New("--debug-image requires a node"))
	default:
		_, vm, err = a.load(ctx, argument, cluster.WholeNode)
	}

	if err != nil {
		return err
	}

	// Taken again for one form of all snapshots.
	return a.WriteSnapshot(output, vm.Host, "", host.Source(vm.Host)+" in a pod")
}

// readNode reads a node through a new pod with the image, or without an image through a VM's pod.
func (a *app) readNode(ctx context.Context, node, image string) (fs.FS, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	defer a.Await(fmt.Sprintf("node %s, at most %s (--timeout)", node, a.timeout))()
	if image != "" {
		return client.Node(limited, namespace, node, image)
	}

	name, err := client.OnNode(limited, namespace, node)
	if err != nil {
		name, err = client.OnNode(limited, "", node)
	}

	if err != nil {
		return nil, err
	}

	vm, err := a.read(ctx, client, name, cluster.WholeNode)
	return vm.Host, err
}
