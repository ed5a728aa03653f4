package nccl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/sys"
)

// Variable names the environment variable with the directory of the builds that `build` makes.
const Variable = "NCCLGRAPH"

// Library is a build of NCCL's topology code, or of the parser of its or RCCL's topology files.
type Library struct {
	Version string // 2.29.7, rccl-5.4.3
	program string
}

// IsRCCL reports whether it is for AMD's GPUs.
func (l Library) IsRCCL() bool { return strings.HasPrefix(l.Version, "rccl") }

// Libraries returns the builds that decide, the version of Debian's NCCL first. Without the
// environment variable the test is skipped.
func Libraries(tb testing.TB) []Library { return builds(tb, "ncclgraph") }

func builds(tb testing.TB, program string) []Library {
	tb.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		tb.Skipf("set %s to the directory that test/nccl/build fills, or run make nccl", Variable)
	}

	programs, err := filepath.Glob(filepath.Join(dir, "bin", "*", program))
	expect.NoError(tb, err)
	if len(programs) == 0 {
		tb.Fatalf("no %s in %s: run test/nccl/build", program, dir)
	}

	libraries := make([]Library, len(programs))
	for i, program := range programs {
		libraries[i] = Library{Version: filepath.Base(filepath.Dir(program)), program: program}
	}

	slices.SortFunc(libraries, func(x, y Library) int {
		isOther := func(l Library) int { return map[bool]int{true: 1}[l.Version != DebianVersion] }
		return cmp.Or(cmp.Compare(isOther(x), isOther(y)), cmp.Compare(x.Version, y.Version))
	})

	return libraries
}

// Parsers returns the builds that read a topology file, those that decide nothing included.
func Parsers(tb testing.TB) []Library { return builds(tb, "parse") }

// Parse lets the library read a topology file and returns its warnings, "" for none.
func (l Library) Parse(tb testing.TB, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "topology.xml")
	expect.NoError(tb, os.WriteFile(file, []byte(text), 0o644))
	out, err := exec.CommandContext(tb.Context(), l.program, file).CombinedOutput()
	if err != nil && len(out) == 0 {
		tb.Fatalf("%s: %v", l.program, err)
	}

	return strings.TrimSpace(string(out))
}

// DebianVersion is the NCCL of Debian's source package, whose decisions the tests assert.
const DebianVersion = "2.29.7"

// Hardware has the answers of CUDA, CPUID and the network to NCCL's code.
type Hardware struct {
	CPU     string // vendor, family and model, as CPUID has them
	SM      int    // compute capability: 90 is 9.0
	NVLinks int    // of each GPU, to NVSwitches
	Mbps    int    // of each NIC
}

// Job is a machine with the GPUs and NICs that a job uses.
type Job struct {
	sys.Machine
	Hardware
	GPUs, NICs []string // names of devices
	Unlinked   []string // GPUs whose NVLinks Fabric Manager has disabled
	Nodes      int      // number of such machines
	P2P        bool     // the driver lets GPUs talk over PCIe; over NVLink they always may
	File       string   // text of a topology file, "" for none
	Env        []string // NAME=VALUE
}

// Decide runs NCCL's code for a job.
func (l Library) Decide(tb testing.TB, job Job) Decisions {
	tb.Helper()
	dir := tb.TempDir()
	expect.NoError(tb, job.Write(filepath.Join(dir, "sys")))
	file := filepath.Join(dir, "job")
	expect.NoError(tb, os.WriteFile(file, job.text(filepath.Join(dir, "sys")), 0o644))
	command := exec.CommandContext(tb.Context(), l.program, file)
	command.Env = append(os.Environ(), job.Env...)

	if job.File != "" {
		name := filepath.Join(dir, "topology.xml")
		expect.NoError(tb, os.WriteFile(name, []byte(job.File), 0o644))
		command.Env = append(command.Env, "NCCL_TOPO_FILE="+name)
	}

	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		tb.Fatalf("NCCL %s: %v: %s", l.Version, err, &stderr)
	}

	var d Decisions
	expect.NoError(tb, json.Unmarshal(out.Bytes(), &d))
	return d
}

// text returns the file that ncclgraph reads. Devices have numbers in the order of their addresses,
// as CUDA and the kernel give them.
func (j Job) text(sys string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "root %s\ncpu %s\np2p %d\nnodes %d\n", sys, j.CPU, map[bool]int{
		true: 1,
	}[j.P2P], j.Nodes)

	for _, name := range j.byAddress(j.GPUs) {
		links := j.NVLinks
		if slices.Contains(j.Unlinked, name) {
			links = 0
		}
		fmt.Fprintf(&b, "gpu %s %s %d %d 1\n", j.Devices[name], name, j.SM, links)
	}

	for _, name := range j.byAddress(j.NICs) {
		fmt.Fprintf(&b, "net %s %s %d 1\n", j.Devices[name], name, j.Mbps)
	}

	return b.Bytes()
}

func (j Job) byAddress(names []string) []string {
	return slices.SortedFunc(slices.Values(names), func(x, y string) int {
		return cmp.Compare(j.Devices[x], j.Devices[y])
	})
}

// Judge returns what NCCL decides for the same devices on a host and in a guest that has booted,
// each by its own sysfs. In the guest a device of a name is at an address.
func (l Library) Judge(
	tb testing.TB, h Hardware, gpus, nics []string, host, guest fs.FS, at map[string]string,
) (onHost, inGuest Outcome) {
	tb.Helper()
	on, err := sys.Recorded(host)
	expect.NoError(tb, err)
	in, err := sys.Recorded(guest)
	expect.NoError(tb, err)
	in.Devices = at
	job := Job{Machine: on, Hardware: h, GPUs: gpus, NICs: nics, Nodes: 2, P2P: true}
	first := l.Decide(tb, job)
	job.Machine = in
	job.P2P = h.NVLinks > 0
	return first.Outcome(first), l.Decide(tb, job).Outcome(first)
}
