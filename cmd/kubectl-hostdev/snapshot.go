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
	var through nodePod
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

Whether peer-to-peer DMA works on the node is in registers of its PCI functions (ACS,
ATS), which Linux shows only to root with the capability SYS_ADMIN. With --registers
the pod has it, and still no path of the node. The namespace has to permit that: its
Pod Security Standard has to be privileged.

` + exitStatus,
		Example: `  kubectl hostdev snapshot dgx -n ml --output-file host.txtar
  kubectl hostdev snapshot node/gpu-7 > host.txtar
  kubectl hostdev snapshot node/gpu-8 --debug-image busybox > host.txtar
  kubectl hostdev snapshot node/gpu-8 --debug-image busybox --registers > host.txtar
  hook-sidecar doctor --sysfs host.txtar   # also of the node's paths between peers`,
		Args: oneVM,
	}

	output.Add(cmd, cli.Text)
	output.Format = cli.Text // whatever the name of the file
	cmd.Flags().StringVar(&through.image, "debug-image", "",
		"read the node through a pod with this image, which needs a shell, such as busybox")
	cmd.Flags().BoolVar(&through.registers, "registers", false,
		"give that pod user 0 and the capability SYS_ADMIN, so that it reads ACS,\n"+
			"ATS and AtomicOps, too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		return a.snapshot(cmd.Context(), args[0], through, output.File)
	}

	cmd.ValidArgsFunction = a.completeVMs
	return cmd
}

// nodePod is the pod through which a node is read: a new one, or without an image a VM's.
type nodePod struct {
	image     string
	registers bool // it may read them
}

func (a *app) snapshot(ctx context.Context, argument string, through nodePod, output string) error {
	var vm cluster.RunningVM
	var err error
	kind, node, _ := strings.Cut(argument, "/")
	switch isNode := (kind == "node" || kind == "nodes") && node != ""; {
	case through.registers && through.image == "":
		err = cli.Failed("name an image with a shell, such as busybox: the pod of a VM may not read "+
			"registers", errors.New("--registers requires --debug-image"))
	case isNode:
		vm.Host, err = a.readNode(ctx, node, through)
	case through.image != "":
		err = cli.Failed("name it as in node/gpu-8", errors.New("--debug-image requires a node"))
	default:
		_, vm, err = a.load(ctx, argument, cluster.WholeNode)
	}

	if err != nil {
		return err
	}

	if through.registers && !host.HasRegisters(vm.Host) {
		a.Say("warning: the pod could not read the registers: it may be in a user namespace, or the " +
			"image has no od and stat")
	}

	// Taken again for one form of all snapshots.
	return a.WriteSnapshot(output, vm.Host, "", host.Source(vm.Host)+" in a pod")
}

// readNode reads a node through a pod.
func (a *app) readNode(ctx context.Context, node string, through nodePod) (fs.FS, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	defer a.Await(fmt.Sprintf("node %s, at most %s (--timeout)", node, a.timeout))()
	if through.image != "" {
		return client.Node(limited, namespace, node, through.image, through.registers)
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
