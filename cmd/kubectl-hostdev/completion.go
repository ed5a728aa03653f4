package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTime is how long a user waits for the Tab key.
const completionTime = 3 * time.Second

// completeVMs completes the VMs with passthrough devices in the namespace, for
// release/kubectl_complete-hostdev. An error completes nothing.
func (a *app) completeVMs(cmd *cobra.Command, args []string, prefix string) (names []string, _ cobra.ShellCompDirective) {
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
