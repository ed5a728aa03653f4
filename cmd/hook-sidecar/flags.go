package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

func addDomainFlag(flags *pflag.FlagSet, domain *string) {
	flags.StringVarP(domain, "domain", "d", "-", "libvirt domain XML, base64 of it, or a virt-launcher log with such a dump,\nalso compressed by gzip, or - for standard input")
}

func addVMIFlag(flags *pflag.FlagSet, vmi *string) {
	flags.StringVar(vmi, "vmi", "", "VirtualMachineInstance as JSON")
}

func addSysfsFlag(flags *pflag.FlagSet, sysfs *string) {
	flags.StringVar(sysfs, "sysfs", liveSysfs, "the host: a sysfs directory or a snapshot file")
}

func addOutputFlag(flags *pflag.FlagSet, output *string) {
	flags.StringVarP(output, "output", "o", "", "write to this file atomically (default: standard output)")
}

// exclude rejects two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	if !cmd.Flags().Changed(one) || !cmd.Flags().Changed(other) {
		return nil
	}
	return cli.Failed(seeHelp(cmd), fmt.Errorf("flags --%s and --%s cannot be used together", one, other))
}

// flagError returns an error of pflag in the words of the other errors.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &invalid):
		want := "a value of type " + invalid.GetFlag().Value.Type()
		switch invalid.GetFlag().Value.Type() {
		case "bool":
			want = "true or false"
		case "int":
			want = "a number"
		}
		return fmt.Errorf("invalid --%s %q: must be %s", invalid.GetFlag().Name, topology.Abridge(invalid.GetValue()), want)
	case errors.As(err, &missing):
		return fmt.Errorf("flag --%s needs a value", missing.GetFlag().Name)
	}
	return err
}

// completeValues sets the values that shells complete for flags that have few.
// Other flags take files; no command takes arguments.
func completeValues(root *cobra.Command) error {
	values := map[string][]string{"version": hooks.Versions()}
	for _, s := range policy.Settings() {
		values[string(s.Key)] = s.Values
		values["lock"] = append(values["lock"], string(s.Key))
	}
	for _, cmd := range root.Commands() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
		values["format"] = []string{cli.Text, cli.JSON}
		if cmd.Name() == "explain" {
			values["format"] = cli.Formats()
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
