package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/policy"
)

// domainUsage describes --domain.
const domainUsage = "libvirt domain XML, base64 of it, or a virt-launcher log with such a dump,\nalso compressed by gzip, or - for standard input"

func addDomainFlag(flags *pflag.FlagSet, domain *string) {
	flags.StringVarP(domain, "domain", "d", "-", domainUsage)
}

func addVMIFlag(flags *pflag.FlagSet, vmi *string) {
	flags.StringVar(vmi, "vmi", "", "VirtualMachineInstance as JSON")
}

func addSysfsFlag(flags *pflag.FlagSet, sysfs *string) {
	flags.StringVar(sysfs, "sysfs", liveSysfs, "the host: a sysfs directory or a snapshot file")
}

// exclude rejects two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	if !cmd.Flags().Changed(one) || !cmd.Flags().Changed(other) {
		return nil
	}
	return cli.Failed(cli.SeeHelp(cmd), fmt.Errorf("flags --%s and --%s cannot be used together", one, other))
}

// completeValues sets the values that shells complete for flags that have few.
// Other flags take files; no command takes arguments.
func completeValues(root *cobra.Command) {
	values := map[string][]string{"version": hooks.Versions()}
	for _, s := range policy.Settings() {
		values[string(s.Key)] = s.Values
		values["lock"] = append(values["lock"], string(s.Key))
	}
	for _, cmd := range root.Commands() {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
		for name, choices := range values {
			if cmd.Flags().Lookup(name) != nil {
				cli.Complete(cmd, name, choices...)
			}
		}
	}
}
