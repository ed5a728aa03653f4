package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"hook-sidecar/pkg/placement"
)

// policyFlags are the keys of the policy as flags.
type policyFlags struct {
	flags *pflag.FlagSet
	keep  []string
}

func addPolicyFlags(flags *pflag.FlagSet) *policyFlags {
	p := &policyFlags{flags: flags}
	flags.String(string(placement.KeyLayout), "numa", "shape of the guest's tree: keep, numa, root or mirror")
	flags.Bool(string(placement.KeyStrict), false, "fail where a device has no place, instead of leaving it where it is")
	flags.String(string(placement.KeyAdd), "", "devices of variables to add: requested (by the VMI), all or none\n(default requested with a VMI, all without)")
	flags.String(string(placement.KeyCompanions), "keep", "functions of a device that the domain lacks: keep (leave out) or add")
	flags.String(string(placement.KeyHotplugPorts), "auto", "root ports to keep free for hotplug: auto (KubeVirt's count) or a number")
	flags.Bool(string(placement.KeyDryRun), false, "plan and report, and return the domain unchanged")
	flags.String(string(placement.KeyNCCLTopology), "none", "topology file for NCCL in the guest: none, or fwcfg (hand it over in QEMU's fw_cfg)")
	flags.StringArrayVar(&p.keep, "keep", nil, "alias of a device that is not moved (repeatable)")
	return p
}

// given are the keys that were set on the command line, checked.
func (p *policyFlags) given() (map[placement.Key]string, error) {
	given := map[placement.Key]string{}
	for _, key := range placement.Keys() {
		if f := p.flags.Lookup(string(key)); f.Changed {
			given[key] = f.Value.String()
		}
	}
	if _, _, err := placement.ResolvePolicy(placement.PolicySource{Flags: given}); err != nil {
		return nil, err
	}
	return given, nil
}

// lockedKeys checks the keys of --lock.
func lockedKeys(names []string) ([]placement.Key, error) {
	var keys []placement.Key
	for _, name := range names {
		key, err := placement.ParseKey(name)
		if err != nil {
			return nil, failure{exitFailed, fmt.Errorf("flag --lock: %w", err), "--lock takes keys of the policy, as in --lock strict,layout"}
		}
		keys = append(keys, key)
	}
	return keys, nil
}
