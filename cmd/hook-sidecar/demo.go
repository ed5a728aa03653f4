package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/testdata"
)

func (a *app) newDemo() *cobra.Command {
	var showDiff bool
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Run the hook on built-in samples, without a cluster or a GPU",
		Long: `demo plans a domain that KubeVirt made for eight GPUs and eight NICs, on a snapshot
of a two-socket host. It prints how much of the host the guest sees without the
hook, and what explain shows of the result.

Exit status:
  0  success
  2  failure`,
		Example: `  hook-sidecar demo
  hook-sidecar demo --layout mirror
  hook-sidecar demo --diff`,
	}
	cmd.Flags().BoolVar(&showDiff, "diff", false, "print what the hook changes in the domain first")
	policy := cli.AddPolicyFlags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		sample, err := readSample(policy)
		if err != nil {
			return err
		}
		return a.demo(sample, showDiff)
	}
	return cmd
}

// sample is the input of demo.
type sample struct {
	mutator plan.Planner
	request plan.Request
}

func readSample(flags *cli.PolicyFlags) (sample, error) {
	source, err := flags.Given()
	if err != nil {
		return sample{}, err
	}
	s := sample{mutator: plan.Planner{Source: source}}
	var snapshot []byte
	for name, to := range map[string]*[]byte{
		testdata.DemoHost: &snapshot, testdata.DemoDomain: &s.request.Domain, testdata.DemoVMI: &s.request.VMI,
	} {
		if *to, err = testdata.Demo.ReadFile(name); err != nil {
			return s, err
		}
	}
	s.mutator.Sysfs, err = host.ParseSnapshot(snapshot)
	return s, err
}

// demo plans the sample and prints the result.
func (a *app) demo(s sample, showDiff bool) error {
	vm := s.mutator.Read(s.request)
	before, after := vm.Current().Plan, vm.Plan()
	var out bytes.Buffer
	if showDiff {
		out.Write(colouredDiff(diff.Diff("a/domain.xml", s.request.Domain, "b/domain.xml", after.Domain), a.Style("")))
	} else {
		fmt.Fprintf(&out, "without the hook: %s\nwith it:          ", strings.Join(report.Headline(before, before), "; "))
	}
	if err := report.New(after.Plan, after.Changed(), after.Err).WriteText(&out, a.Style("")); err != nil {
		return err
	}
	if !showDiff {
		out.WriteString("\nIts XML: hook-sidecar demo --diff. For your VM: hook-sidecar explain --domain vm.xml --vmi vmi.json\n")
	}
	return cmp.Or(a.Write("", out.Bytes()), failureOf(after))
}
