package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl has

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// app has the state that the commands share.
type app struct {
	cli.Program
	config   *genericclioptions.ConfigFlags
	timeout  time.Duration
	archives []archive.Input // read in place of the cluster
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args, environ []string, streams cli.Streams) int {
	a := &app{
		Program: cli.Program{Streams: streams, Environ: environ},
		config:  genericclioptions.NewConfigFlags(true),
	}

	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*reasons.Error)) {
		err = cli.Failed("try again, or give it longer with --timeout", err)
	}

	return a.ExitStatus(err)
}

const exitStatus = "Exit status:\n  0  success\n  2  usage error or failure"

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
	a.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().DurationVar(&a.timeout, "timeout", 30*time.Second,
		"how long reading one VM may take")
	a.Root(root, a.newExplain(), a.newDoctor(), a.newFit(), a.newWhy(), a.newCollect(),
		a.newSnapshot())
	root.Version = a.Version() + " " + runtime.Version()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// load reads the VM that an argument names.
func (a *app) load(
	ctx context.Context, argument string, scope cluster.Scope,
) (*cluster.Client, cluster.RunningVM, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, cluster.RunningVM{}, err
	}

	name, err := vmName(namespace, argument)
	if err != nil {
		return nil, cluster.RunningVM{}, err
	}

	if name.Namespace == "" {
		name.Namespace = archived(a.archives, name.Name)
	}

	if name.Namespace == "" && len(a.archives) > 0 {
		return nil, cluster.RunningVM{}, cli.Failed("name its namespace with -n",
			fmt.Errorf("the files have no VM %s, or several of this name", name.Name))
	}

	vm, err := a.read(ctx, client, name, scope)
	return client, vm, err
}

// read reads one VM in the time that --timeout gives it.
func (a *app) read(
	ctx context.Context, client *cluster.Client, name types.NamespacedName, scope cluster.Scope,
) (cluster.RunningVM, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	defer a.Await(fmt.Sprintf("VM %s, at most %s (--timeout)", name, a.timeout))()
	in, err := client.Instance(ctx, name)
	if err != nil {
		return cluster.RunningVM{}, err
	}

	vm, err := client.VM(ctx, in, scope)
	if err == nil && in.Target != "" {
		a.Say("warning: VM %s is migrating to node %s; this is where it still runs, %s", name,
			in.Target, in.Node)
	}

	return vm, err
}

// connect returns a client of the cluster and the namespace that the flags and the
// kubeconfig name.
func (a *app) connect() (*cluster.Client, string, error) {
	if a.timeout <= 0 {
		return nil, "", cli.Failed("",
			fmt.Errorf("invalid --timeout %s: must be more than 0", a.timeout))
	}

	if len(a.archives) > 0 {
		client, err := cluster.FromArchives(a.archives...)
		if err != nil {
			return nil, "", err
		}
		return client, cmp.Or(*a.config.Namespace, archived(a.archives, "")), nil
	}

	namespace, _, err := a.config.ToRawKubeConfigLoader().Namespace()
	config, configErr := a.config.ToRESTConfig()
	if err = cmp.Or(err, configErr); err != nil {
		return nil, "",
			cli.Failed("pass one with --kubeconfig or KUBECONFIG, and one of its contexts with "+
				"--context", fmt.Errorf("read kubeconfig: %w", err))
	}

	client, err := cluster.New(config)
	return client, namespace, err
}

// planned plans a VM as the hook in its pod would, and finds out why its domain lacks what that wrote.
func (a *app) planned(
	ctx context.Context, client *cluster.Client, vm cluster.RunningVM, planner plan.Planner,
) (cli.Running, error) {
	running, err := newRunning(vm, planner)
	if err != nil || len(running.Lost.Keys) == 0 || !vm.IsSidecar() {
		return running, err
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	plugins, err := client.Plugins(ctx)
	running.Lost.Unread = err != nil
	running.Lost.Plugins = topology.Map(plugins, func(p kubevirt.Plugin) string {
		return p.Metadata.Name
	})

	return running, nil
}

// newRunning plans a VM as the hook in its pod would.
func newRunning(vm cluster.RunningVM, planner plan.Planner) (running cli.Running, err error) {
	planner.Source, err = cli.HookPolicy(vm.HookArgs)
	if err == nil {
		request := plan.Request{Domain: vm.Domain, Parsed: vm.VMI, Running: true}
		running, err = cli.NewRunning(planner.Read(request), vm.Hook != "", planner.Locked)
	}

	if err != nil {
		return running, fmt.Errorf("plan VM %s: %w", vm.NamespacedName, err)
	}

	return running, nil
}

// vmName returns the VM that an argument names: "dgx", or "vm/dgx" as kubectl prints it.
func vmName(namespace, argument string) (types.NamespacedName, error) {
	name, isName := nameOf(argument, "vm", "vms", "vmi", "vmis", "virtualmachine",
		"virtualmachines", "virtualmachineinstance", "virtualmachineinstances")
	if !isName {
		return types.NamespacedName{},
			cli.Failed("name a VM, as in dgx or vm/dgx, and its namespace with -n",
				fmt.Errorf("invalid VM %q", words.Abridge(argument)))
	}

	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// nameOf returns the name of an argument that has it alone, or after one of these kinds as kubectl
// prints it: virtualmachine.kubevirt.io/dgx.
func nameOf(argument string, kinds ...string) (name string, isName bool) {
	kind, name, isTyped := strings.Cut(argument, "/")
	if !isTyped {
		return argument, argument != ""
	}

	kind, _, _ = strings.Cut(kind, ".")
	return name, name != "" && !strings.Contains(name, "/") && slices.Contains(kinds, kind)
}

// kinds are the kinds that kubectl takes before a name, and what this program has before that name.
var kinds = map[string]string{
	"vm": "", "vmi": "", "virtualmachine": "", "virtualmachineinstance": "", "node": "node/",
}

// oneVM checks that a command has the name of one VM.
func oneVM(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return cli.Failed(seeUsage(cmd, args),
		fmt.Errorf("%d arguments, want the name of a VM", len(args)))
}

// oneVMOrNone rejects a second argument.
func oneVMOrNone(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	return cli.Failed(seeUsage(cmd, args), fmt.Errorf("unexpected argument %q", args[1]))
}

// seeUsage hints at what kubectl would take: a kind before a name.
func seeUsage(cmd *cobra.Command, args []string) string {
	if len(args) == 2 {
		if before, isKind := kinds[args[0]]; isKind {
			return fmt.Sprintf("did you mean %s %s%s?", cmd.Name(), before, args[1])
		}
	}
	return cli.SeeHelp(cmd)
}
