package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl has

	"hook-sidecar/pkg/cluster"
	"hook-sidecar/pkg/explain"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/terminal"
	"hook-sidecar/pkg/topology"
)

// app is what the commands share.
type app struct {
	genericiooptions.IOStreams
	environ terminal.Environ
	config  *genericclioptions.ConfigFlags
	timeout time.Duration
}

// The exit codes are those of hook-sidecar.
const (
	exitDone   = 0
	exitFound  = 1 // doctor has a FAIL, --guest a difference
	exitFailed = 2
)

// errFound ends the program with exitFound, without a message.
var errFound = errors.New("something was found")

// run is main without the process.
func run(ctx context.Context, args, environ []string, streams genericiooptions.IOStreams) int {
	a := &app{IOStreams: streams, environ: environ, config: genericclioptions.NewConfigFlags(true)}
	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var remedied interface{ Remedy() string }
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFound
	}
	a.say("error: %v", err)
	switch {
	case errors.As(err, &remedied) && remedied.Remedy() != "":
		a.say("hint: %s", remedied.Remedy())
	case errors.Is(err, context.DeadlineExceeded):
		a.say("hint: try again, or give it longer with --timeout")
	}
	return exitFailed
}

// usage is an error of the command line.
type usage struct {
	error
	hint string
}

// Remedy says how to write it.
func (u usage) Remedy() string { return u.hint }

const exitStatus = "Exit status:\n  0  success\n  2  usage error or failure"

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-hostdev",
		Short: "Show where a running VM's passthrough devices are in the guest's PCIe tree",
		Long: `kubectl hostdev reads a running KubeVirt VM where it runs: the VMI, the domain that
libvirt runs, and the node's sysfs. It shows where each passthrough device is on the
host and in the guest, and what hook-sidecar would make of it. The cluster need not
have the hook. It changes nothing.

It needs to get and list virtualmachineinstances, to list pods, and to create
pods/exec in the VM's namespace: manifests/kubectl/clusterrole.yaml.

` + exitStatus,
		Example: `  kubectl hostdev explain dgx
  kubectl hostdev explain -A`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl hostdev"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(a.Out)
	root.SetErr(a.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage{err, fmt.Sprintf("see %s --help", cmd.CommandPath())}
	})
	a.config.AddFlags(root.PersistentFlags())
	root.PersistentFlags().DurationVar(&a.timeout, "timeout", 30*time.Second, "how long reading one VM may take")
	root.AddCommand(a.newExplain(), a.newDoctor(), a.newSnapshot(), a.newCompletion(), a.newVersion())
	return root
}

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  kubectl hostdev version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, version())
			return err
		},
	}
}

// version is what the build recorded.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return "kubectl-hostdev " + info.Main.Version
	}
	return "kubectl-hostdev unknown"
}

// say prints a line to standard error, escaped for a terminal.
func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.ErrOut, terminal.Escaped(fmt.Sprintf(format, args...)))
}

// write writes to a file, or to standard output when file is "" or "-".
func (a *app) write(file string, data []byte) error {
	return terminal.Write(a.Out, file, data)
}

// connect returns a client of the cluster and the namespace that the flags and the
// kubeconfig name.
func (a *app) connect() (*cluster.Client, string, error) {
	if a.timeout <= 0 {
		return nil, "", usage{fmt.Errorf("invalid --timeout %s: must be more than 0", a.timeout), ""}
	}
	loader := a.config.ToRawKubeConfigLoader()
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", badConfig(err)
	}
	config, err := a.config.ToRESTConfig()
	if err != nil {
		return nil, "", badConfig(err)
	}
	client, err := cluster.New(config)
	return client, namespace, err
}

func badConfig(err error) error {
	return usage{fmt.Errorf("read kubeconfig: %w", err), "pass one with --kubeconfig or KUBECONFIG, and one of its contexts with --context"}
}

// read reads one VM in the time that --timeout gives it.
func (a *app) read(ctx context.Context, client *cluster.Client, name types.NamespacedName, scope cluster.Scope) (cluster.VM, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	in, err := client.Instance(ctx, name)
	if err != nil {
		return cluster.VM{}, err
	}
	vm, err := client.VM(ctx, in, scope)
	if err == nil && in.Target() != "" {
		a.say("warning: VM %s is migrating to node %s; this is where it still runs, %s", name, in.Target(), in.Node)
	}
	return vm, err
}

// planned is a VM that was read, and what the hook would make of it.
type planned struct {
	cluster.VM
	mutator mutate.Mutator
	request mutate.Request
	explain.Running
}

// plan plans a VM as the hook in its pod would.
func plan(vm cluster.VM, details bool) (planned, error) {
	p := planned{
		VM: vm, mutator: mutate.Mutator{Sysfs: vm.Host, Details: details},
		request: mutate.Request{Domain: vm.Domain, Parsed: vm.VMI},
	}
	var err error
	p.Running, err = explain.NewRunning(p.mutator, p.request, vm.Hook)
	return p, err
}

// load reads and plans the VM that an argument names.
func (a *app) load(ctx context.Context, argument string, scope cluster.Scope, details bool) (*cluster.Client, planned, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, planned{}, err
	}
	name, err := vmName(namespace, argument)
	if err != nil {
		return nil, planned{}, err
	}
	vm, err := a.read(ctx, client, name, scope)
	if err != nil {
		return nil, planned{}, err
	}
	p, err := plan(vm, details)
	if err != nil {
		return nil, p, fmt.Errorf("plan VM %s: %w", name, err)
	}
	return client, p, nil
}

// vmName is the VM that an argument names: "dgx", or "vm/dgx" as kubectl prints it.
func vmName(namespace, argument string) (types.NamespacedName, error) {
	kind, name, isTyped := strings.Cut(argument, "/")
	if !isTyped {
		kind, name = "vm", argument
	}
	kind, _, _ = strings.Cut(kind, ".") // virtualmachine.kubevirt.io
	kinds := []string{"vm", "vms", "vmi", "vmis", "virtualmachine", "virtualmachines", "virtualmachineinstance", "virtualmachineinstances"}
	if name == "" || strings.Contains(name, "/") || !slices.Contains(kinds, kind) {
		return types.NamespacedName{}, usage{fmt.Errorf("invalid VM %q", topology.Abridge(argument)), "name a VM, as in dgx or vm/dgx, and its namespace with -n"}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// oneVM checks that a command has the name of one VM.
func oneVM(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usage{fmt.Errorf("%d arguments, want the name of a VM", len(args)), fmt.Sprintf("see %s --help", cmd.CommandPath())}
}

// checkFormat checks the value of --format.
func checkFormat(format string, formats ...string) error {
	if slices.Contains(formats, format) {
		return nil
	}
	return usage{fmt.Errorf("invalid --format %q: must be one of %s", topology.Abridge(format), strings.Join(formats, ", ")), ""}
}
