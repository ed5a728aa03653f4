package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// app has the state that the commands share.
type app struct {
	cli.Program
	config   *kubeconfig
	timeout  time.Duration
	archives []archive.Input // read in place of the cluster
}

const exitStatus = "Exit status:\n  0  success\n  2  usage error or failure"

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
		return client, cmp.Or(a.config.namespace(), archived(a.archives, "")), nil
	}

	loaded := a.config.load()
	namespace, _, err := loaded.Namespace()
	config, configErr := loaded.ClientConfig()
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

// open makes archives what commands read, in place of a cluster.
func (a *app) open(names []string) (err error) {
	a.archives, err = a.readInputs(names, cli.MaxInput)
	return err
}

// maxObjects limits the bytes of a file of a cluster's objects: some thousand nodes with their
// pods.
const maxObjects = 1 << 30

// readInputs reads a user's files, archives and directories. A file that is no archive has a limit
// of its own.
func (a *app) readInputs(names []string, limit int) (inputs []archive.Input, err error) {
	for _, name := range names {
		var in archive.Input
		if info, statErr := os.Stat(name); statErr == nil && info.IsDir() {
			in, err = archive.ReadDirectory(name, os.DirFS(name), maxObjects)
		} else {
			var data []byte
			data, err = a.ReadFileOf(name, func(head []byte) int {
				if archive.IsTar(head) {
					return maxObjects
				}
				return limit
			})
			if err == nil {
				in, err = archive.Parse(cli.InputName(name), data)
			}
		}

		if err != nil {
			return nil, err
		}

		inputs = append(inputs, in)
	}

	return inputs, nil
}

// archived returns the namespace of the VMs in the archives: the only one, or that of a VM with a
// name; "" for several.
func archived(archives []archive.Input, name string) string {
	found := ""
	for _, in := range archives {
		for _, vm := range in.Collected.VMs {
			namespace, archivedName, _ := strings.Cut(vm, "/")
			switch {
			case name != "" && archivedName != name:
			case found != "" && found != namespace:
				return ""
			default:
				found = namespace
			}
		}
	}

	return found
}
