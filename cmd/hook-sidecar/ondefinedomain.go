package main

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/mutate"
)

// onDefineDomainName is the name under which KubeVirt's sidecar-shim looks for
// a program in $PATH (KubeVirt cmd/sidecars/sidecar_shim.go).
const onDefineDomainName = "onDefineDomain"

func (a *app) newOnDefineDomain() *cobra.Command {
	var vmi, domainXML, sysfs string
	var lock []string
	cmd := &cobra.Command{
		Use:   onDefineDomainName + " --vmi JSON --domain XML",
		Short: "Answer KubeVirt's sidecar-shim",
		Long: `onDefineDomain takes the VMI and the domain as arguments and prints the domain
with every device at its place, as KubeVirt's sidecar-shim asks for it. What
cannot be done leaves the domain as it is, unless the policy is strict.

Exit status:
  0  the domain is on standard output
  2  usage, or under strict policy bad input and failures
  3  refused by strict policy`,
		Example: `  onDefineDomain --vmi "$(cat vmi.json)" --domain "$(cat vm.xml)"`,
		Args:    noArguments,
	}
	cmd.Flags().StringVar(&vmi, "vmi", "", "VirtualMachineInstance as JSON")
	cmd.Flags().StringVar(&domainXML, "domain", "", "libvirt domain XML")
	cmd.Flags().StringVar(&sysfs, "sysfs", "/sys", "the host: a /sys folder or a snapshot file")
	cmd.Flags().StringSliceVar(&lock, "lock", nil, "keys whose annotation does not count")
	policy := addPolicyFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("domain") {
			return failure{exitFailed, errors.New("flag --domain is missing"), "see hook-sidecar onDefineDomain --help"}
		}
		log := slog.New(slog.NewJSONHandler(a.err, nil))
		m, closer, err := a.hookMutator(log, sysfs, lock, policy)
		if err != nil {
			return err
		}
		req := mutate.Request{Domain: []byte(domainXML)}
		if vmi != "" {
			req.VMI = []byte(vmi)
		}
		result := loggedMutate(log, m, req, onDefineDomainName)
		if err := closer.Close(); err != nil {
			log.Error("release the host", "error", err)
		}
		if result.Err != nil && result.Strict {
			return failureOf(result)
		}
		return a.write("", result.Domain)
	}
	return cmd
}
