package main

import (
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/plan"
)

// onDefineDomainName is the program that KubeVirt's sidecar-shim looks for in
// $PATH (KubeVirt cmd/sidecars/sidecar_shim.go).
const onDefineDomainName = "onDefineDomain"

func (a *app) newOnDefineDomain() *cobra.Command {
	var vmi, domain, sysfs string
	cmd := &cobra.Command{
		Use:   onDefineDomainName + " --vmi JSON --domain XML",
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
		a.logInBackground()
		if !cmd.Flags().Changed("domain") {
			return cli.Failed(cli.SeeHelp(cmd), errors.New("missing flag --domain"))
		}

		answerer, err := a.hookAnswerer(newLog(a.Err), sysfs, policy)
		if err != nil {
			return err
		}

		result, log := answerer.answer(onDefineDomainName, plan.Request{
			Domain: []byte(domain), VMI: []byte(vmi),
			CloudInitSkipped: answerer.noReader(onDefineDomainName),
		})
		defer log()
		if result.Err != nil && result.Strict {
			return failureOf(result)
		}

		return a.Write("", result.Domain)
	}

	return cmd
}

// newLog returns the log of serve and onDefineDomain.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(cli.JSONWriter{To: w}, nil))
}
