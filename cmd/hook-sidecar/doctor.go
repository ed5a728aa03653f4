package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
)

// doctorFlags are the flags of doctor beside its inputs.
type doctorFlags struct {
	format, socketDir, cgroup string
	physBits                  int
}

func (a *app) newDoctor() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check a host, a VM and the place where the hook runs",
		Long: `doctor looks at the host, the domain and the VMI as far as they are given, and at
the container that it runs in, and prints a line for each finding: PASS, WARN,
FAIL or NOTE, the name of the check, what it found, and what to do about it. A
FAIL means that a device finds no place or is lost, or that the VM or the hook
does not start. docs/doctor.md has a section for each check.

Without a domain it looks at every device that the host offers to guests.

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage, bad input, failure`,
		Example: `  hook-sidecar doctor
  hook-sidecar doctor --domain vm.xml --vmi vmi.json --sysfs host.txtar
  hook-sidecar doctor --format json | jq '.results[] | select(.status == "FAIL")'`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	domainFlag := cmd.Flags().Lookup("domain")
	in.domain, domainFlag.DefValue = "", ""
	domainFlag.Usage = "libvirt domain XML, or a virt-launcher log with its base64 dump; - is standard input (default: none)"
	cmd.Flags().StringVar(&flags.format, "format", formatText, "text or json")
	cmd.Flags().StringVar(&flags.socketDir, "socket-dir", hookFolder, "folder of the hook sockets; \"\": leave it out")
	cmd.Flags().StringVar(&flags.cgroup, "cgroup", "/sys/fs/cgroup", "cgroup v2 with the limits of this container; \"\": leave them out")
	cmd.Flags().IntVar(&flags.physBits, "phys-bits", 0, "physical address bits of the host's CPUs (default: those of this machine with --sysfs "+liveSysfs+")")
	cmd.RunE = func(*cobra.Command, []string) error { return a.doctor(in, flags) }
	return cmd
}

func (a *app) doctor(in *inputFlags, flags doctorFlags) error {
	if flags.format != formatText && flags.format != formatJSON {
		return failure{exitFailed, fmt.Errorf("flag --format: %q is none of %s, %s", flags.format, formatText, formatJSON), ""}
	}
	if flags.physBits < 0 || flags.physBits > maxPhysBits {
		return failure{exitFailed, fmt.Errorf("flag --phys-bits: %d is none of 0 to %d", flags.physBits, maxPhysBits), "/proc/cpuinfo of the host has it under address sizes"}
	}
	inputs, err := a.doctorInputs(in)
	if err != nil {
		return err
	}
	inputs.HostPhysBits = flags.physBits
	if flags.physBits == 0 && in.sysfs == liveSysfs {
		inputs.HostPhysBits, err = hostPhysBits()
		a.tellUnknown(err)
	}
	if flags.socketDir != "" {
		inputs.Sockets = lookAtSockets(flags.socketDir, a.variable("CONTAINER_NAME"))
	}
	if flags.cgroup != "" {
		inputs.Limits, err = readLimits(flags.cgroup)
		a.tellUnknown(err)
	}
	r := doctor.NewReport(inputs)
	if err := a.writeDoctor(r, flags.format); err != nil {
		return err
	}
	if in.domain == "" {
		fmt.Fprintln(a.err, "hook-sidecar: hint: --domain and --vmi check a VM as well")
	}
	if r.Counts[doctor.Fail] > 0 {
		return errChanged
	}
	return nil
}

// doctorInputs reads the host whole and what else is given. The plan is made
// as mutate makes it.
func (a *app) doctorInputs(in *inputFlags) (inputs doctor.Inputs, err error) {
	m, closer, err := a.mutator(in.sysfs, in.environ, in.policy)
	if err != nil {
		return inputs, err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	inputs.Variables, inputs.Problems = m.Variables, m.Problems
	host, problems := env.ReadWholeHost(m.Sysfs)
	inputs.Host = host
	inputs.Problems = append(inputs.Problems, problems...)
	inputs.Problems = append(inputs.Problems, env.ReadDetails(m.Sysfs, host)...)
	if in.domain == "" {
		inputs.VMI, inputs.Layout, err = a.readVMI(in.vmi, m)
		return inputs, err
	}
	return inputs, a.planForDoctor(&inputs, m, in)
}

func (a *app) planForDoctor(inputs *doctor.Inputs, m mutate.Mutator, in *inputFlags) error {
	req, err := a.readRequest(in.domain, in.vmi)
	if err == nil && req.VMI != nil {
		_, err = parseVMI(in.vmi, req.VMI)
	}
	if err != nil {
		return err
	}
	result := m.Mutate(req)
	if result.Err != nil && !isRefusal(result.Err) {
		return failureOf(result)
	}
	inputs.VMI, inputs.Plan, inputs.Layout = result.VMI, result.Plan, result.Plan.Policy.Layout
	inputs.Domain, err = domain.Parse(req.Domain)
	return err
}

// tellUnknown tells of something that a check would look at and that cannot be
// read; the other checks go on.
func (a *app) tellUnknown(err error) {
	if err != nil {
		fmt.Fprintf(a.err, "hook-sidecar: warning: %v\n", err)
	}
}

// readVMI reads a VMI from a file, nil when none is given, and the layout that
// holds for it.
func (a *app) readVMI(file string, m mutate.Mutator) (*env.VMI, policy.Layout, error) {
	source := policy.Source{Flags: m.Flags}
	var vmi *env.VMI
	if file != "" {
		data, err := a.readInput(file)
		if err != nil {
			return nil, "", err
		}
		if vmi, err = parseVMI(file, data); err != nil {
			return nil, "", err
		}
		source.HasVMI, source.Annotations = true, vmi.Annotations
	}
	resolved, _, err := policy.Resolve(source)
	return vmi, resolved.Layout, err
}

// maxPhysBits is the most that x86 knows (Intel SDM volume 3, 4.1.4).
const maxPhysBits = 52

// liveSysfs is where a Linux machine shows itself.
const liveSysfs = "/sys"

// hostPhysBits is how many physical address bits this machine's CPUs have.
func hostPhysBits() (int, error) {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0, fmt.Errorf("find out the physical address bits: %w", err)
	}
	return env.ParsePhysBits(string(cpuinfo)), nil
}

func readLimits(dir string) (*env.Limits, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find this container's cgroup: %w", err)
	}
	return env.ReadLimits(os.DirFS(dir), string(membership))
}

func (a *app) writeDoctor(r doctor.Report, format string) error {
	var b bytes.Buffer
	if format == formatJSON {
		if err := encodeJSON(&b, r); err != nil {
			return err
		}
		return a.write("", b.Bytes())
	}
	for _, result := range r.Results {
		fmt.Fprintln(&b, result)
	}
	var counts []string
	for _, status := range []doctor.Status{doctor.Pass, doctor.Note, doctor.Warn, doctor.Fail} {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[status], status))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(counts, ", "))
	return a.write("", b.Bytes())
}
