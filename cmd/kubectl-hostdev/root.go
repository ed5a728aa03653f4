package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl has

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
)

// run runs a command line and returns the exit code.
func run(ctx context.Context, args, environ []string, streams cli.Streams) int {
	a := &app{
		Program: cli.Program{Streams: streams, Environ: environ},
		config:  newKubeconfig(),
	}

	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*reasons.Error)) {
		err = cli.Failed("try again, or give it longer with --timeout", err)
	}

	return a.ExitStatus(err)
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-hostdev",
		Short: "Show where a running VM's passthrough devices are in the guest's PCIe tree",
		Long: `kubectl hostdev reads a running KubeVirt VM where it runs: the VMI, the domain that
libvirt runs, and the node's sysfs. It shows where each passthrough device is on the
host and in the guest, and where hook-sidecar would place it. The cluster need not
have the hook. It changes nothing; only --debug-image makes pods, and deletes them.

It needs to get and list virtualmachineinstances, to list pods, and to create
pods/exec in the VM's namespace: ` + reasons.Page("manifests/kubectl/clusterrole.yaml") + `.

Every command has kubectl's flags, such as --context and -n, and --timeout: how long
reading one VM may take (default 30s).

` + exitStatus,
		Example: `  kubectl hostdev explain dgx
  kubectl hostdev explain -A`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl hostdev"},
	}

	root.SetOut(a.Out)
	root.CompletionOptions.DisableDefaultCmd = true
	a.config.addFlags(root.PersistentFlags())
	root.PersistentFlags().DurationVar(&a.timeout, "timeout", 30*time.Second,
		"how long reading one VM may take")
	a.Root(root, a.newExplain(), a.newDoctor(), a.newFit(), a.newWhy(), a.newCollect(),
		a.newSnapshot())
	root.Version = a.Version() + " " + runtime.Version()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}
