package main

import (
	"errors"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/sidecar"
	"hook-sidecar/pkg/tools/cli"
)

func newOnDefineDomain(p *cli.Program, log *sidecar.Log) *cobra.Command {
	var vmi, domain, sysfs string
	cmd := &cobra.Command{
		Use:   sidecar.Shim + " --vmi JSON --domain XML",
		Short: "Answer KubeVirt's sidecar-shim",
		Long: `onDefineDomain takes a VMI and a domain as arguments, as KubeVirt's sidecar-shim
passes them, and prints the domain with every passthrough device placed. On an
error it prints the domain unchanged, unless the policy is strict.

Exit status:
  0  the domain is on standard output
  2  usage error; with strict policy also invalid input or failure
  3  refused by strict policy`,
		Example: `  onDefineDomain --vmi "$(cat vmi.json)" --domain "$(cat vm.xml)"`,
	}

	addVMIFlag(cmd.Flags(), &vmi)
	cmd.Flags().StringVar(&domain, "domain", "", "libvirt domain XML")
	addSysfsFlag(cmd.Flags(), &sysfs)
	policy := cli.AddHookPolicyFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p.Err = log.Start(p.Err)
		if !cmd.Flags().Changed("domain") {
			return cli.Failed(cli.SeeHelp(cmd), errors.New("missing flag --domain"))
		}

		hook, err := newSidecar(p, log, sysfs, policy)
		if err != nil {
			return err
		}

		result, logCall := hook.Call(sidecar.Shim,
			plan.Request{Domain: []byte(domain), VMI: []byte(vmi)})
		defer logCall()
		if result.Err != nil && result.Strict {
			return failureOf(result)
		}

		return p.Write("", result.Domain)
	}

	return cmd
}
