package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/sample"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/testdata"
)

func newDemo(p *cli.Program) *cobra.Command {
	var shows demoOutput
	var from []string
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Run the hook on built-in samples, without a cluster or a GPU",
		Long: `demo plans a domain that KubeVirt made for eight GPUs and eight NICs, on a snapshot
of a two-socket host. It prints what NCCL decides and where some devices are, on the
host, in the guest without the hook, and in the guest with it.

With --host the host is a snapshot, or any record that snapshot --from takes, and
the VM has all its GPUs and NICs and a cell per NUMA node. --print-domain prints the
domain, for explain --sysfs.

Exit status:
  0  success
  2  failure`,
		Example: `  hook-sidecar demo
  hook-sidecar demo --details
  hook-sidecar demo --layout root
  hook-sidecar demo --diff
  hook-sidecar demo --host lstopo.xml --port-speed host`,
	}

	cli.AddDetails(cmd, &shows.details)
	cli.AlsoNamed(cmd.Flags(), "full", "details")
	cmd.Flags().BoolVar(&shows.diff, "diff", false, "print what the hook changes in the domain")
	cmd.Flags().BoolVar(&shows.domain, "print-domain", false,
		"print the domain as it comes to the hook")
	cmd.Flags().StringArrayVar(&from, "host", nil,
		"plan for this host; - is standard input; several records of one\nmachine complete each "+
			"other")

	policy := cli.AddPolicyFlags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		planned, err := readDemo(policy)
		if err == nil && len(from) > 0 {
			err = useHost(p, &planned, from)
		}

		if err != nil {
			return err
		}

		return runDemo(p, planned, shows)
	}

	return cmd
}

// demoInput is the input of demo.
type demoInput struct {
	planner plan.Planner
	request plan.Request
}

// readDemo reads the built-in samples.
func readDemo(flags *cli.PolicyFlags) (demoInput, error) {
	source, err := flags.Given()
	if err != nil {
		return demoInput{}, err
	}

	s := demoInput{planner: plan.Planner{Source: source}}
	var snapshot []byte
	for name, to := range map[string]*[]byte{
		testdata.DemoHost: &snapshot, testdata.DemoDomain: &s.request.Domain,
		testdata.DemoVMI: &s.request.VMI,
	} {
		if *to, err = testdata.Demo.ReadFile(name); err != nil {
			return s, err
		}
	}

	s.planner.Sysfs, err = host.ParseSnapshot(snapshot)
	return s, err
}

// useHost plans for a recorded host, and a VM with its GPUs and NICs.
func useHost(p *cli.Program, s *demoInput, files []string) error {
	made, err := readRecord(p, files)
	if err != nil {
		return err
	}

	shown, problems := host.Read(made.sysfs, nil, host.All)
	p.Warn(problems)
	assumeVFIO(p, made.sysfs, shown)

	vm, err := sample.Of(shown)
	if err != nil {
		return cli.Failed("pass a host with GPUs", err)
	}

	s.planner.Sysfs, s.request = made.sysfs, plan.Request{}
	s.request.Domain, err = vm.Domain()
	return err
}

// assumeVFIO binds all GPUs and NICs of a host to vfio-pci where no GPU is: the host was not
// prepared for VMs.
func assumeVFIO(p *cli.Program, sysfs fs.FS, shown *topology.Host) {
	isPrepared := func(d topology.Function) bool { return d.IsGPU() && d.IsVFIO() }
	machine, _ := paste.ReadSysfs(sysfs)
	if slices.ContainsFunc(shown.Functions, isPrepared) || len(machine.GPUs()) == 0 {
		return
	}

	for _, d := range append(machine.GPUs(), machine.NICs()...) {
		if d.PhysFn == nil {
			shown.FunctionAt(d.Address).Driver = "vfio-pci"
		}
	}

	p.Say("no GPU of the host is bound to a VFIO driver: planned as if its GPUs and NICs were")
}

// demoOutput selects the output of demo: explain's text, the changes of the domain, or by default
// the summary.
type demoOutput struct {
	details      []report.Section
	diff, domain bool
}

// demo plans the sample and prints the result.
func runDemo(p *cli.Program, s demoInput, shows demoOutput) error {
	vm := s.planner.Read(s.request)
	before, after := vm.Current().Plan, vm.Plan()
	result := report.New(after.Plan, after.Changed(), after.Err)

	var out bytes.Buffer
	var err error
	switch {
	case shows.domain:
		out.Write(s.request.Domain)
	case shows.diff:
		out.Write(colouredDiff(diff.Diff("a/domain.xml", s.request.Domain, "b/domain.xml",
			after.Domain), p.Style("")))

	case len(shows.details) > 0:
		result.Details = shows.details
		err = result.WriteText(&out, p.Style(""))
	default:
		err = result.WriteSummary(&out, before, p.Style(""))
		out.WriteString("\nMore: --details. The XML: --diff.\n" +
			"Your VM: hook-sidecar explain vm.xml --vmi vmi.json --host host.txtar\n")
	}

	if err == nil {
		err = p.Write("", out.Bytes())
	}

	return cmp.Or(err, failureOf(after))
}
