package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/tools/cli"
)

// inputFlags are the inputs of mutate, explain and doctor, which has no domain or several.
type inputFlags struct {
	domains             []string
	vmi, environ, sysfs string
	policy              *cli.PolicyFlags
}

func addInputFlags(flags *pflag.FlagSet) *inputFlags {
	in := &inputFlags{}
	addVMIFlag(flags, &in.vmi)
	flags.StringVar(&in.environ, "env", "",
		"environment variables as NAME=VALUE lines or as /proc/PID/environ has them\n(default: "+
			"those of this process)")

	addSysfsFlag(flags, &in.sysfs)
	in.policy = cli.AddPolicyFlags(flags)
	return in
}

// domainUsage describes --domain.
const domainUsage = "`FILE` of libvirt domain XML, base64 of it, or a virt-launcher log with such " +
	"a dump,\nalso in gzip, or - for standard input"

func (in *inputFlags) addDomain(flags *pflag.FlagSet, usage string) {
	flags.StringArrayVarP(&in.domains, "domain", "d", nil, domainUsage+usage)
}

// oneFile accepts one argument, the domain's file. A word after a switch is none.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && (args[0] == "true" || args[0] == "false") {
		return cli.NoArguments(cmd, args)
	}
	return cli.AtMostOne(cmd, args)
}

// domain returns the file of the one domain.
func (in *inputFlags) domain() (string, error) {
	switch len(in.domains) {
	case 0:
		return "-", nil
	case 1:
		return in.domains[0], nil
	}

	return "", cli.Failed("name one domain; doctor takes several",
		errors.New("two domains are named"))
}

// vmInput is the input of mutate and explain.
type vmInput struct {
	*plan.VM
	domain []byte
	source string // where the domain comes from: "launcher.log, dump 2 of 2"
}

// read reads the inputs, with the details of devices on request. isRunning says that the domain is that
// of a running VM.
func (in *inputFlags) read(p *cli.Program, details, isRunning bool) (vmInput, error) {
	planner, err := in.planner(p)
	if err != nil {
		return vmInput{}, err
	}

	file, err := in.domain()
	if err != nil {
		return vmInput{}, err
	}

	domain, err := readDomain(p, file, in.vmi)
	if err != nil {
		return vmInput{}, err
	}

	source := fileName(file)
	if domain.Dumps > 0 {
		source += fmt.Sprintf(", dump %d of %[1]d", domain.Dumps)
	}

	vmi, err := readVMI(p, in.vmi)
	planner.Details = details
	request := plan.Request{Domain: domain.XML, Parsed: vmi, Running: isRunning}
	return vmInput{planner.Read(request), domain.XML, source}, err
}

// planner returns a Planner with the host, the variables and the flags.
func (in *inputFlags) planner(p *cli.Program) (plan.Planner, error) {
	m, err := withoutHost(p, in.environ, in.policy)
	if err != nil {
		return m, err
	}

	m.PhysBits = physBitsOf(in.sysfs)
	m.Sysfs, err = openSysfs(p, in.sysfs)
	return m, err
}

// openSysfs rejects a directory that is not a sysfs. In a container without one /sys is empty.
func openSysfs(p *cli.Program, name string) (fs.FS, error) {
	sysfs, err := p.OpenSysfs(name)
	if err == nil {
		entries, listed := fs.ReadDir(sysfs, ".")
		isKnown := func(e fs.DirEntry) bool { return e.Name() == "bus" || e.Name() == "devices" }
		if listed == nil && len(entries) > 0 && !slices.ContainsFunc(entries, isKnown) {
			err = fmt.Errorf("open sysfs: %s has neither bus nor devices", name)
		}
	}

	if err != nil {
		return nil, cli.Failed("--sysfs takes a sysfs directory or a snapshot file", err)
	}

	return sysfs, nil
}

// withoutHost returns a Planner with the variables and the flags. With wrong flags it has those
// that are valid.
func withoutHost(
	p *cli.Program, environFile string, policy *cli.PolicyFlags,
) (plan.Planner, error) {
	source, invalid := policy.Given()
	environ := []string(p.Environ)
	if environFile != "" {
		data, err := p.ReadFile(environFile, cli.MaxInput)
		if err != nil {
			return plan.Planner{}, err
		}

		if environ, err = env.ParseEnviron(string(data)); err != nil {
			return plan.Planner{}, fmt.Errorf("%s: %w", cli.InputName(environFile), err)
		}
	}

	variables, problems := env.ParseVariables(environ)
	return plan.Planner{Variables: variables, Problems: problems, Source: source}, invalid
}

// readDomain reads the domain from file, before the VMI from vmiFile.
func readDomain(p *cli.Program, file, vmiFile string) (kubevirt.FoundDomain, error) {
	if file == "-" && vmiFile == "-" {
		return kubevirt.FoundDomain{}, cli.Failed("pass a file to --domain or --vmi",
			errors.New("cannot read both the domain and the VMI from standard input"))
	}

	data, err := p.ReadInput(file)
	switch {
	case err != nil && file == "-":
		return kubevirt.FoundDomain{}, cli.Failed("name the domain's file with --domain, or pipe it in",
			err)
	case err != nil:
		return kubevirt.FoundDomain{}, err
	}

	domain, err := kubevirt.FindDomain(data, cli.MaxInput)
	if err == nil {
		return domain, nil
	}

	hint := "virsh dumpxml VM prints a domain; virt-launcher logs one at verbosity 2"
	if errors.Is(err, kubevirt.ErrCutOff) {
		hint = "pass the whole line of virt-launcher's log; a log viewer may have truncated it"
	}

	return domain, cli.Failed(hint, fmt.Errorf("%s: %w", cli.InputName(file), err))
}

const vmiHint = "pass the VMI as JSON or YAML: kubectl get vmi NAME -o json"

// readVMI reads the VMI from a file, nil when there is none.
func readVMI(p *cli.Program, file string) (*kubevirt.VMI, error) {
	data, err := readVMIJSON(p, file)
	if err != nil || data == nil {
		return nil, err
	}

	vmi, err := kubevirt.ParseVMI(data)
	if err != nil {
		return nil, cli.Failed(vmiHint, fmt.Errorf("%s: %w", cli.InputName(file), err))
	}

	return vmi, nil
}

// readVMIJSON reads a VMI from a file of JSON or YAML, nil when there is none.
func readVMIJSON(p *cli.Program, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}

	data, err := p.ReadInput(file)
	if err != nil || bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return data, err
	}

	if data, err = yaml.YAMLToJSON(data); err != nil { // which may show passwords
		return nil, cli.Failed(vmiHint,
			fmt.Errorf("%s: parse VMI: neither JSON nor YAML", cli.InputName(file)))
	}

	return data, nil
}

// fileName returns the name of an input file without its directory.
func fileName(file string) string { return filepath.Base(cli.InputName(file)) }

// maxPhysBits is the maximum of x86 (Intel SDM volume 3, 4.1.4).
const maxPhysBits = 52

// physBitsOf returns a reader of /proc/cpuinfo for the live host, nil for a snapshot. The reader
// returns 0 if it does not know.
func physBitsOf(sysfs string) func() int {
	if sysfs != liveSysfs {
		return nil
	}
	return func() int {
		cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
		return parsePhysBits(string(cpuinfo))
	}
}
