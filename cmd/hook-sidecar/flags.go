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

func addLockFlag(flags *pflag.FlagSet, lock *[]string) {
	flags.StringSliceVar(lock, "lock", nil, "policy keys whose annotations are ignored")
}

// policyFlags are the policy as flags.
type policyFlags struct {
	flags *pflag.FlagSet
	keep  []string
}

func addPolicyFlags(flags *pflag.FlagSet) *policyFlags {
	p := &policyFlags{flags: flags}
	for _, s := range policy.Settings() {
		switch {
		case s.IsBool():
			flags.Bool(string(s.Key), false, s.Meaning)
		case s.WithoutVMI != "":
			flags.String(string(s.Key), "", fmt.Sprintf("%s\n(default %q with a VMI, %q without)", s.Meaning, s.Default, s.WithoutVMI))
		default:
			flags.String(string(s.Key), s.Default, s.Meaning)
		}
	}
	flags.StringArrayVar(&p.keep, "keep", nil, "alias of a device that is not moved (repeatable)")
	return p
}

// given returns the keys that were set on the command line, checked.
func (p *policyFlags) given() (policy.Source, error) {
	given := map[policy.Key]string{}
	for _, key := range policy.Keys() {
		if f := p.flags.Lookup(string(key)); f.Changed {
			given[key] = f.Value.String()
		}
	}
	source := policy.Source{Flags: given, Keep: p.keep}
	if _, _, err := policy.Resolve(source); err != nil {
		return source, cli.Failed("--help lists the values of each flag", err)
	}
	return source, nil
}

// lockedKeys checks the keys of --lock.
func lockedKeys(names []string) ([]policy.Key, error) {
	var keys []policy.Key
	for _, name := range names {
		key, err := policy.ParseKey(name)
		if err != nil {
			return nil, cli.Failed("--lock takes policy keys, as in --lock strict,layout", fmt.Errorf("flag --lock: %w", err))
		}
		keys = append(keys, key)
	}
	return keys, nil
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
