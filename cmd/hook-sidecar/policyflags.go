package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"hook-sidecar/pkg/policy"
)

// policyFlags are the keys of the policy as flags.
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

// given are the keys that were set on the command line, checked.
func (p *policyFlags) given() (map[policy.Key]string, error) {
	given := map[policy.Key]string{}
	for _, key := range policy.Keys() {
		if f := p.flags.Lookup(string(key)); f.Changed {
			given[key] = f.Value.String()
		}
	}
	if _, _, err := policy.Resolve(policy.Source{Flags: given}); err != nil {
		return nil, err
	}
	return given, nil
}

// lockedKeys checks the keys of --lock.
func lockedKeys(names []string) ([]policy.Key, error) {
	var keys []policy.Key
	for _, name := range names {
		key, err := policy.ParseKey(name)
		if err != nil {
			return nil, failure{exitFailed, fmt.Errorf("flag --lock: %w", err), "--lock takes keys of the policy, as in --lock strict,layout"}
		}
		keys = append(keys, key)
	}
	return keys, nil
}
