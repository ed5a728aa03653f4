package judges

import (
	"bytes"
	_ "embed"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// Variable names the environment variable with the directory that test/boot/get-newest fills with
// Debian testing's libucx0, libucx-dev, hwloc-nox and rdma-core.
const Variable = "JUDGES"

//go:embed ucx/ucx.c
var ucxSource []byte

// Programs are the programs of other people that are asked.
type Programs struct {
	root string // of Debian's packages
	ucx  string // the program of ucx/
}

// New returns the programs. Without the environment variable the test is skipped.
func New(tb testing.TB) Programs {
	tb.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		tb.Skipf("set %s to the directory that test/boot/get-newest fills, or run make judges",
			Variable)
	}

	p := Programs{root: filepath.Join(dir, "root"), ucx: filepath.Join(tb.TempDir(), "ucx")}
	source, include := p.ucx+".c", filepath.Join(p.root, "usr", "include")
	expect.NoError(tb, os.WriteFile(source, ucxSource, 0o600))
	out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", p.ucx, source, "-I"+include,
		"-ldl").CombinedOutput()
	if err != nil {
		tb.Fatalf("compile ucx: %v: %s", err, out)
	}

	return p
}

// libraries returns the directory of Debian's libraries.
func (p Programs) libraries() string {
	return filepath.Join(p.root, "usr", "lib", "x86_64-linux-gnu")
}

// run runs a program with Debian's own libraries and returns what it prints. before has a program
// that starts it, and its arguments.
func (p Programs) run(tb testing.TB, environment []string, input string, before []string,
	program ...string,
) string {
	tb.Helper()
	command := slices.Concat(before, []string{
		filepath.Join(p.root, "lib64", "ld-linux-x86-64.so.2"), "--library-path", p.libraries(),
	}, program)

	c := exec.CommandContext(tb.Context(), command[0], command[1:]...)
	c.Env = append(os.Environ(), environment...)
	c.Stdin = strings.NewReader(input)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		tb.Fatalf("%s: %v: %s", filepath.Base(program[0]), err, &stderr)
	}

	return out.String()
}

// Pair is a GPU and a NIC, by their names.
type Pair struct{ GPU, NIC string }

// Asked is a machine that programs are asked about.
type Asked struct {
	Dir        string            // its /sys
	GPUs, NICs []string          // names of devices
	At         map[string]string // addresses by name
}

// devices yields the names of GPUs and NICs.
func (a Asked) devices() iter.Seq[string] {
	return slices.Values(slices.Concat(a.GPUs, a.NICs))
}

// name returns the name of the device at an address.
func (a Asked) name(address string) string {
	for name, at := range a.At {
		if at == address {
			return name
		}
	}
	return ""
}

// addresses returns the addresses of devices.
func (a Asked) addresses(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, a.At[name])
	}
	return strings.Join(all, " ")
}

// UCX returns the MiB/s that UCX assumes between each GPU and each NIC of machines, by the value of
// UCX_DISTANCE_BW.
func (p Programs) UCX(
	tb testing.TB, values []string, machines []Asked,
) []map[string]map[Pair]float64 {
	tb.Helper()
	var input strings.Builder
	for _, m := range machines {
		fmt.Fprintln(&input, m.Dir, m.addresses(m.GPUs), "--", m.addresses(m.NICs))
	}

	out := p.run(tb, nil, input.String(), []string{"unshare", "--map-root-user", "--mount"},
		append([]string{p.ucx, filepath.Join(p.libraries(), "libucs.so.0")}, values...)...)

	answers := make([]map[string]map[Pair]float64, len(machines))
	m, value := 0, 0
	for line := range strings.Lines(out) {
		dir, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if isNext := strings.HasPrefix(dir, "/"); isNext {
			m = slices.IndexFunc(machines, func(a Asked) bool { return a.Dir == dir })
			var err error
			value, err = strconv.Atoi(number)
			expect.NoError(tb, err)
			if answers[m] == nil {
				answers[m] = map[string]map[Pair]float64{}
			}
			answers[m][values[value]] = map[Pair]float64{}
			continue
		}

		var gpu, nic string
		var bandwidth, latency float64
		_, err := fmt.Sscan(line, &gpu, &nic, &bandwidth, &latency)
		expect.NoError(tb, err)
		answers[m][values[value]][Pair{machines[m].name(gpu), machines[m].name(nic)}] = bandwidth
	}

	return answers
}
