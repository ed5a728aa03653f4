package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/policy"
)

func (a *app) newCompletion() *cobra.Command {
	shells := []string{"bash", "fish", "powershell", "zsh"}
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands and flags in a shell",
		Long: `completion prints a script for bash, fish, powershell or zsh. The shell that has
read it completes commands, flags and the values of flags.

Exit status:
  0  done
  2  usage, failure`,
		Example: `  source <(hook-sidecar completion bash)
  hook-sidecar completion fish > ~/.config/fish/completions/hook-sidecar.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return failure{exitFailed, fmt.Errorf("completion takes one of %s", strings.Join(shells, ", ")), ""}
			}
			return nil
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var script bytes.Buffer
		if err := writeCompletion(cmd.Root(), args[0], &script); err != nil {
			return err
		}
		return a.write("", script.Bytes())
	}
	return cmd
}

func writeCompletion(root *cobra.Command, shell string, script *bytes.Buffer) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(script, true)
	case "fish":
		return root.GenFishCompletion(script, true)
	case "powershell":
		return root.GenPowerShellCompletionWithDesc(script)
	}
	return root.GenZshCompletion(script)
}

// completeValues tells the shells the values of flags that have a few. All
// other flags take files or what only the user knows; no command but completion
// takes arguments.
func completeValues(root *cobra.Command) error {
	values := map[string][]string{"version": {"v1alpha1", "v1alpha2", "v1alpha3"}}
	for _, s := range policy.Settings() {
		values[string(s.Key)] = s.Values
		values["lock"] = append(values["lock"], string(s.Key))
	}
	for _, cmd := range root.Commands() {
		if len(cmd.ValidArgs) == 0 {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		values["format"] = []string{formatText, formatJSON}
		if cmd.Name() == "explain" {
			values["format"] = explainFormats()
		}
		for name, choices := range values {
			if cmd.Flags().Lookup(name) == nil {
				continue
			}
			if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				return err
			}
		}
	}
	return nil
}
