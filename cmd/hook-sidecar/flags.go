package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/hooks"
	"hook-sidecar/pkg/policy"
)

// domainUsage describes --domain.
const domainUsage = "`FILE` of libvirt domain XML, base64 of it, or a virt-launcher log with such " +
	"a dump,\nalso in gzip, or - for standard input"

func (in *inputFlags) addDomain(flags *pflag.FlagSet, usage string) {
	flags.StringArrayVarP(&in.domains, "domain", "d", nil, domainUsage+usage)
}

// domain returns the file of the one domain.
func (in *inputFlags) domain() (string, error) {
	switch len(in.domains) {
	case 0:
		return "-", nil
	case 1:
		return in.domains[0], nil
	}

	return "", cli.Failed("name one domain; doctor takes several",
		errors.New("flag --domain appears twice"))
}

func addVMIFlag(flags *pflag.FlagSet, vmi *string) {
	flags.StringVar(vmi, "vmi", "",
		"VirtualMachineInstance, or a VirtualMachine for its template, as JSON or YAML")
}

func addSysfsFlag(flags *pflag.FlagSet, sysfs *string) {
	flags.StringVar(sysfs, "sysfs", liveSysfs,
		"the host: a sysfs directory or a snapshot file, or - for standard input")
}

// exclude rejects two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	if !cmd.Flags().Changed(one) || !cmd.Flags().Changed(other) {
		return nil
	}
	return cli.Failed(cli.SeeHelp(cmd),
		fmt.Errorf("flags --%s and --%s cannot be used together", one, other))
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
