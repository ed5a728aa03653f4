package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
)

// newCompletion prints the script by which kubectl completes a plugin's arguments
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins, "Shell completion").
func (a *app) newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion",
		Short: "Print the script with which kubectl completes arguments",
		Long: `completion prints a script. As an executable file kubectl_complete-hostdev in a
directory of PATH it lets kubectl's own completion complete VMs and flags.

` + exitStatus,
		Example: `  kubectl hostdev completion > ~/.local/bin/kubectl_complete-hostdev
  chmod +x ~/.local/bin/kubectl_complete-hostdev`,
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Out, "#!/bin/sh\nexec kubectl hostdev __complete \"$@\"")
			return err
		},
	}
}

// completionTime is how long a user waits for the Tab key.
const completionTime = 3 * time.Second

// completeVMs completes the VMs with passthrough devices in the namespace.
func (a *app) completeVMs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	client, namespace, err := a.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, err := client.Instances(ctx, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, in := range all {
		if in.MayHaveDevices && strings.HasPrefix(in.Name, prefix) {
			names = append(names, in.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
