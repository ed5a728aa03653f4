package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTime is how long a user waits for the Tab key.
const completionTime = 3 * time.Second

// completeVMs completes the VMs with passthrough devices in the namespace, for
// release/kubectl_complete-hostdev.
func (a *app) completeVMs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	client, namespace, err := a.connect()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	all, err := client.Instances(ctx, namespace, "")
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
