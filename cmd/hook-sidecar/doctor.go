package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hook-sidecar/pkg/doctor"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/mutate"
	"hook-sidecar/pkg/policy"
)

// doctorFlags are the flags of doctor except for its inputs.
type doctorFlags struct {
	format, socketDir, cgroup string
	physBits                  int
	quiet                     bool
}

func (a *app) newDoctor() *cobra.Command {
	var flags doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "Check a host, a VM and the container of the hook",
		Long: `doctor checks the host, the container that it runs in, and the domain and the VMI
if they are given. It prints one line per result: PASS, WARN, FAIL or NOTE, the
name of the check, what it found, and what to do about it. FAIL means that a
device cannot be placed or is lost, or that the VM or the hook does not start.
docs/doctor.md describes each check.

Without a domain, doctor checks every device that the host can pass to a guest.

Exit status:
  0  no FAIL
  1  a FAIL
  2  usage error, invalid input or failure`,
		Example: `  hook-sidecar doctor
  hook-sidecar doctor --domain vm.xml --vmi vmi.json --sysfs host.txtar
  hook-sidecar doctor --format json | jq '.results[] | select(.status == "FAIL")'`,
		Args: noArguments,
	}
	in := addInputFlags(cmd.Flags())
	domainFlag := cmd.Flags().Lookup("domain")
	in.domain, domainFlag.DefValue = "", ""
	domainFlag.Usage += " (default: none)"
	cmd.Flags().StringVar(&flags.format, "format", formatText, "text or json")
	cmd.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "leave out what is as it should be")
	cmd.Flags().StringVar(&flags.socketDir, "socket-dir", socketDirectory, "directory of the hook sockets; \"\" skips its checks")
	cmd.Flags().StringVar(&flags.cgroup, "cgroup", "/sys/fs/cgroup", "cgroup v2 directory with the limits of this container; \"\" skips\ntheir checks")
	cmd.Flags().IntVar(&flags.physBits, "phys-bits", 0, "physical address bits of the host's CPUs (default: those of this machine\nwith --sysfs "+liveSysfs+")")
	cmd.RunE = func(*cobra.Command, []string) error { return a.doctor(in, flags) }
	return cmd
}

func (a *app) doctor(in *inputFlags, flags doctorFlags) error {
	if err := checkFormat(flags.format, formatText, formatJSON); err != nil {
		return err
	}
	if flags.physBits < 0 || flags.physBits > maxPhysBits {
		return failed("see address sizes in /proc/cpuinfo of the host", fmt.Errorf("invalid --phys-bits %d: must be between 0 and %d", flags.physBits, maxPhysBits))
	}
	inputs, err := a.doctorInputs(in)
	if err != nil {
		return err
	}
	inputs.HostPhysBits = flags.physBits
	if flags.physBits == 0 && in.sysfs == liveSysfs {
		inputs.HostPhysBits, err = hostPhysBits()
		a.warnOfUnknown(err)
	}
	if flags.socketDir != "" {
		inputs.Sockets = readSockets(flags.socketDir, a.variable("CONTAINER_NAME"))
	}
	if flags.cgroup != "" {
		inputs.Limits, err = readLimits(flags.cgroup)
		a.warnOfUnknown(err)
	}
	r := doctor.NewReport(inputs)
	if err := a.writeDoctor(r, flags); err != nil {
		return err
	}
	if in.domain == "" {
		a.say("hint: --domain and --vmi check a VM too")
	}
	return changeError(r.Counts[doctor.Fail] > 0)
}

// doctorInputs reads the whole host and the inputs that are given. It plans as
// mutate does.
func (a *app) doctorInputs(in *inputFlags) (doctor.Inputs, error) {
	m, err := a.mutator(in)
	if err != nil {
		return doctor.Inputs{}, err
	}
	host, problems := env.ReadWholeHost(m.Sysfs)
	problems = append(problems, env.ReadDetails(m.Sysfs, host)...)
	inputs := doctor.Inputs{Host: host, Variables: m.Variables, Problems: append(m.Problems, problems...)}
	if in.domain == "" {
		if inputs.VMI, err = a.readVMI(in.vmi); err != nil {
			return inputs, err
		}
		if inputs.VMI != nil {
			m.HasVMI, m.Annotations = true, inputs.VMI.Annotations
		}
		resolved, warnings, err := policy.Resolve(m.Source)
		inputs.Layout, inputs.PolicyWarnings = resolved.Layout, warnings
		return inputs, err
	}
	req, err := a.readRequest(in)
	if err != nil {
		return inputs, err
	}
	result := m.Mutate(req)
	if result.Err != nil && !isRefusal(result.Err) {
		return inputs, failureOf(result)
	}
	inputs.VMI, inputs.Plan, inputs.Layout, inputs.Refusal = result.VMI, result.Plan, result.Plan.Layout, result.Err
	inputs.Alternatives = alternatives(m, req)
	return inputs, nil
}

// alternatives are what each layout would give.
func alternatives(m mutate.Mutator, req mutate.Request) []doctor.Alternative {
	var all []doctor.Alternative
	for _, layout := range []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
		m.Flags = maps.Clone(m.Flags)
		if m.Flags == nil {
			m.Flags = map[policy.Key]string{}
		}
		m.Flags[policy.KeyLayout] = string(layout)
		if result := m.Mutate(req); result.Plan != nil {
			all = append(all, doctor.Alternative{Layout: layout, Alike: result.Plan.Pairs().Alike})
		}
	}
	return all
}

// warnOfUnknown warns of an input that cannot be read. Its checks are skipped.
func (a *app) warnOfUnknown(err error) {
	if err != nil {
		a.say("warning: %v", err)
	}
}

// maxPhysBits is the maximum of x86 (Intel SDM volume 3, 4.1.4).
const maxPhysBits = 52

// hostPhysBits returns the physical address bits of this machine's CPUs.
func hostPhysBits() (int, error) {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 0, fmt.Errorf("read the physical address bits: %w", err)
	}
	return env.ParsePhysBits(string(cpuinfo)), nil
}

func readLimits(dir string) (*env.Limits, error) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read this container's cgroup: %w", err)
	}
	return env.ReadLimits(os.DirFS(dir), string(membership))
}

func (a *app) writeDoctor(r doctor.Report, flags doctorFlags) error {
	if flags.quiet {
		r.Results = slices.DeleteFunc(r.Results, func(result doctor.Result) bool { return result.Status == doctor.Pass })
	}
	var b bytes.Buffer
	if flags.format == formatJSON {
		if err := encodeJSON(&b, r); err != nil {
			return err
		}
		return a.write("", b.Bytes())
	}
	for _, result := range r.Results {
		fmt.Fprintln(&b, escaped(result.String()))
	}
	var counts []string
	for _, status := range []doctor.Status{doctor.Fail, doctor.Warn, doctor.Note, doctor.Pass} {
		counts = append(counts, fmt.Sprintf("%d %s", r.Counts[status], status))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.Join(counts, ", "))
	return a.write("", b.Bytes())
}
