package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/doctor"
)

// doctorFlags are the flags of doctor except for its inputs.
type doctorFlags struct {
	cli.Output
	quiet             bool
	socketDir, cgroup string
	physBits          int
}

func newDoctor(p *cli.Program) *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check a host, a VM and the container of the hook",
		Long: `doctor checks the host, the container that it runs in, and the domain and the VMI
if they are given. It prints one line per result: PASS, WARN, FAIL or NOTE, the
name of the check, what it found, and what to do about it. FAIL means that a
device cannot be placed or is lost, or that the VM or the hook does not start.
` + reasons.Page("docs/doctor.md") + ` describes each check.

Without a domain, doctor checks every device that the host can pass to a guest.
With the domains of all VMs of a node it also finds vGPUs that no VM uses.

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage error, invalid input or failure`,
		Example: `  hook-sidecar doctor
  hook-sidecar doctor --domain vm.xml --vmi vmi.json --sysfs host.txtar
  hook-sidecar doctor --domain domains/ --sysfs host.txtar
  hook-sidecar doctor -o json | jq '.results[] | select(.status == "FAIL")'`,
	}

	in := addInputFlags(cmd.Flags())
	in.addDomain(cmd.Flags(),
		" (default: what is piped);\nrepeat it, or pass a directory of *.xml, for several VMs of "+
			"a node")

	flags.Output.Add(cmd, cli.Text, cli.JSON, cli.YAML)
	cli.AddQuiet(cmd, &flags.quiet)
	cmd.Flags().StringVar(&flags.socketDir, "socket-dir", socketDirectory,
		"directory of the hook sockets; \"\" skips its checks")
	cmd.Flags().StringVar(&flags.cgroup, "cgroup", "/sys/fs/cgroup",
		"cgroup v2 directory with the limits of this container; \"\" skips\ntheir checks")
	cmd.Flags().IntVar(&flags.physBits, "phys-bits", 0,
		"physical address bits of the host's CPUs (default: those of this machine\nwith --sysfs "+
			liveSysfs+")")

	cmd.RunE = func(*cobra.Command, []string) error { return runDoctor(p, in, flags) }
	return cmd
}

// domainFiles returns the files of domains; of a directory those named *.xml. node is true
// where they are the domains of a node and not the one of a VM.
func domainFiles(given []string) (names []string, node bool, err error) {
	for _, name := range given {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			names = append(names, name)
			continue
		}

		found, err := filepath.Glob(filepath.Join(name, "*.xml"))
		if err != nil || len(found) == 0 {
			return nil, false, cli.Failed("virsh dumpxml VM > DIRECTORY/VM.xml writes one",
				errors.Join(fmt.Errorf("read domains: no *.xml in %s", name), err))
		}

		names, node = append(names, found...), true
	}

	return names, node || len(names) > 1, nil
}

func runDoctor(p *cli.Program, in *inputFlags, flags doctorFlags) error {
	if err := flags.Check(); err != nil {
		return err
	}

	if flags.physBits < 0 || flags.physBits > maxPhysBits {
		return cli.Failed("see address sizes in /proc/cpuinfo of the host",
			fmt.Errorf("invalid --phys-bits %d: must be between 0 and %d", flags.physBits,
				maxPhysBits))
	}

	if err := in.addPiped(p); err != nil {
		return err
	}

	inputs, err := in.doctorInputs(p, flags)
	if err != nil {
		return err
	}

	if flags.socketDir != "" {
		inputs.Sockets = readSockets(flags.socketDir, p.Environ.Variable("CONTAINER_NAME"))
	}

	if flags.cgroup != "" {
		// whose checks are skipped
		if inputs.Limits, err = readLimits(os.DirFS(flags.cgroup)); err != nil {
			p.Say("warning: %v", err)
		}
	}

	err = p.Doctor(doctor.NewReport(inputs), "", flags.quiet, flags.Output)
	if inputs.IsGuest() {
		p.Say("hint: this is a guest: hook-sidecar guest gives its verdict, " +
			"and what to send to the administrator")
	}

	if len(in.domains) == 0 && (err == nil || errors.Is(err, cli.ErrFound)) {
		p.Say("hint: --domain and --vmi check a VM too")
	}

	return err
}

// addPiped takes what is piped to doctor for the domain, unless inputs are named that say
// otherwise.
func (in *inputFlags) addPiped(p *cli.Program) error {
	if len(in.domains) > 0 || slices.Contains([]string{in.vmi, in.environ, in.sysfs}, "-") {
		return nil
	}

	isPiped, err := p.IsPiped()
	if isPiped {
		in.domains = []string{"-"}
	}

	return err
}

// doctorInputs reads the whole host and the inputs that are given.
func (in *inputFlags) doctorInputs(p *cli.Program, flags doctorFlags) (doctor.Inputs, error) {
	files, node, err := domainFiles(in.domains)
	if err != nil {
		return doctor.Inputs{}, err
	}

	if node && (in.vmi != "" || in.environ != "") {
		return doctor.Inputs{}, cli.Failed("pass --vmi and --env with the domain of their VM alone",
			errors.New("--vmi and --env cannot be combined with several domains"))
	}

	planner, err := in.planner(p)
	if err != nil {
		return doctor.Inputs{}, err
	}

	if flags.physBits > 0 {
		planner.PhysBits = func() int { return flags.physBits }
	}

	if node {
		planner.Variables, planner.Problems = nil, nil // of one VM, too
	}

	inputs, planner := doctor.NewInputs(planner)
	inputs.Node = node
	if planner.PhysBits != nil {
		inputs.HostPhysBits = planner.PhysBits()
	}

	if len(files) == 0 {
		if inputs.VMI, err = readVMI(p, in.vmi); err == nil {
			inputs.Policy, inputs.PolicyWarnings, err = planner.Policy(inputs.VMI)
		}
		return inputs, err
	}

	vms := make([]doctor.VMInputs, len(files))
	for i, file := range files {
		if vms[i], err = in.doctorVM(p, planner, file); err != nil {
			return inputs, err
		}

		failed := vms[i].Err != nil && !vms[i].IsRefused() // a plan that strict refuses is checked
		switch {
		case failed && node:
			return inputs, fmt.Errorf("%s: %w", cli.InputName(file), failureOf(vms[i].Result))
		case failed:
			return inputs, failureOf(vms[i].Result)
		}
	}

	inputs.VMInputs, inputs.Others = vms[0], vms[1:]
	return inputs, nil
}

// doctorVM reads a VM.
func (in *inputFlags) doctorVM(
	p *cli.Program, planner plan.Planner, file string,
) (vm doctor.VMInputs, err error) {
	domain, err := readDomain(p, file, in.vmi)
	if err != nil {
		return vm, err
	}

	vmi, err := readVMI(p, in.vmi)
	if err != nil {
		return vm, err
	}

	return doctor.NewVMInputs(planner.Read(plan.Request{Domain: domain.XML, Parsed: vmi}),
		cli.InputName(file)), nil
}
