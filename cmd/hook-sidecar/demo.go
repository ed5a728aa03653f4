package main

import (
	"bytes"
	"cmp"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/cli"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/testdata"
)

func (a *app) newDemo() *cobra.Command {
	var shows demoOutput
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Run the hook on built-in samples, without a cluster or a GPU",
		Long: `demo plans a domain that KubeVirt made for eight GPUs and eight NICs, on a snapshot
of a two-socket host. It prints what NCCL decides and where some devices are, on the
host, in the guest without the hook, and in the guest with it.

Exit status:
  0  success
  2  failure`,
		Example: `  hook-sidecar demo
  hook-sidecar demo --full
  hook-sidecar demo --layout root
  hook-sidecar demo --diff`,
	}

	cmd.Flags().BoolVar(&shows.full, "full", false, "print what explain shows of the result")
	cmd.Flags().BoolVar(&shows.diff, "diff", false, "print what the hook changes in the domain")
	policy := cli.AddPolicyFlags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		sample, err := readSample(policy)
		if err != nil {
			return err
		}
		return a.demo(sample, shows)
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
		testdata.DemoHost: &snapshot, testdata.DemoDomain: &s.request.Domain,
		testdata.DemoVMI: &s.request.VMI,
	} {
		if *to, err = testdata.Demo.ReadFile(name); err != nil {
			return s, err
		}
	}

	s.mutator.Sysfs, err = host.ParseSnapshot(snapshot)
	return s, err
}

// demoOutput selects the output of demo: explain's text, the changes of the domain, or by default
// the summary.
type demoOutput struct{ full, diff bool }

// demo plans the sample and prints the result.
func (a *app) demo(s sample, shows demoOutput) error {
	vm := s.mutator.Read(s.request)
	before, after := vm.Current().Plan, vm.Plan()
	result := report.New(after.Plan, after.Changed(), after.Err)

	var out bytes.Buffer
	var err error
	switch {
	case shows.diff:
		out.Write(colouredDiff(diff.Diff("a/domain.xml", s.request.Domain, "b/domain.xml",
			after.Domain), a.Style("")))

	case shows.full:
		err = result.WriteText(&out, a.Style(""))
	default:
		err = result.WriteSummary(&out, before, a.Style(""))
		out.WriteString("\nMore: --full. The XML: --diff. Your VM: hook-sidecar explain --domain " +
			"vm.xml --vmi vmi.json\n")
	}

	return cmp.Or(err, a.Write("", out.Bytes()), failureOf(after))
}
