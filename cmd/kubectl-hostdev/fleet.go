package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster"
)

// fleetFlags are the flags of a command that reads many VMs if it has no VM.
type fleetFlags struct {
	cli.Output
	all         bool
	selector    string
	concurrency int
	archives    []string
}

func (f *fleetFlags) add(cmd *cobra.Command, formats ...string) {
	f.Add(cmd, formats...)
	flags := cmd.Flags()
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "the VMs of all namespaces")
	flags.StringVarP(&f.selector, "selector", "l", "",
		"the VMs whose VMIs have these labels, as in kubectl")
	flags.IntVar(&f.concurrency, "concurrency", 8, "how many VMs are read at a time")
	flags.StringArrayVarP(&f.archives, "file", "f", nil,
		"read this archive of collect instead of the cluster; may be repeated")
}

// check checks the flags with these arguments of the command.
func (f *fleetFlags) check(args []string, formats ...string) error {
	switch {
	case f.concurrency < 1:
		return cli.Failed("",
			fmt.Errorf("invalid --concurrency %d: must be at least 1", f.concurrency))
	case len(args) > 0 && (f.all || f.selector != ""):
		return cli.Failed("leave out one of them",
			errors.New("-A and -l cannot be combined with a VM"))
	}

	return f.Check(formats...)
}

// noVM is the text of a table and a report without a VM.
const noVM = "no VM with passthrough devices\n"

// failure returns the first error where no VM was read.
func failure(failures []error) error {
	if len(failures) == 0 || slices.Contains(failures, nil) {
		return nil
	}
	return failures[0]
}

// completionTime is how long a user waits for the Tab key.
const completionTime = 3 * time.Second

// completeVMs completes the VMs with passthrough devices in the namespace, for
// release/kubectl_complete-hostdev. An error completes nothing.
func (a *app) completeVMs(
	cmd *cobra.Command, args []string, prefix string,
) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	a.timeout = completionTime
	_, all, _ := a.instances(cmd.Context(), fleetFlags{})
	for _, in := range all {
		if strings.HasPrefix(in.Name, prefix) {
			names = append(names, in.Name)
		}
	}

	return names, cobra.ShellCompDirectiveNoFileComp
}

// instances returns the VMs that may have devices, by namespace and name.
func (a *app) instances(
	ctx context.Context, f fleetFlags,
) (*cluster.Client, []cluster.Instance, error) {
	client, namespace, err := a.connect()
	if err != nil {
		return nil, nil, err
	}

	if f.all {
		namespace = ""
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	all, err := client.Instances(ctx, namespace, f.selector)
	all = slices.DeleteFunc(all, func(in cluster.Instance) bool { return !in.MayHaveDevices })
	slices.SortFunc(all, func(x, y cluster.Instance) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})

	return client, all, err
}
