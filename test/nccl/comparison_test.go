//go:build lane

package nccl_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/nccl"
)

var update = flag.Bool("update", false, "rewrite the table of docs/comparison.md")

// compared are the machines of the table, by the names of their cases.
var compared = []struct{ name, title string }{
	{"hgx-h100", "HGX H100"},
	{"dgx-a100", "DGX A100"},
	{"pcie-8g4n", "8 GPUs without NVLink, 4 NICs"},
	{"three-roots", "4 GPUs, no switch"},
}

// row is a way to build the guest's tree. Without a form it is one of KubeVirt's, or as the domain
// came.
type row struct {
	title string
	core  matrix.CoreTree
	form  *form
}

func rows() []row {
	layout := func(name string, key policy.Key, value string) *form {
		f := form{flags: nccl.Flags{policy.KeyLayout: name}}
		if key != "" {
			f.flags[key] = value
		}

		f.file = key == policy.KeyNCCLTopology
		return &f
	}

	clique := layout("mirror", policy.KeyPortSpeed, "host")
	clique.p2p = true
	return []row{
		{"without the hook", "", nil},
		{"gate `PCINUMAAwareTopology`", matrix.ExpanderPerCell, nil},
		{"19104", matrix.ExpanderPerRootPort, nil},
		{"enhancement 424", matrix.ExpanderPerRoot, nil},
		{"17025", matrix.SwitchPerRoot, nil},
		{"`numa`", "", layout("numa", "", "")},
		{"`root`", "", layout("root", "", "")},
		{"`mirror`", "", layout("mirror", "", "")},
		{"`auto`", "", layout("auto", "", "")},
		{"`auto`, `nccl-topology`", "", layout("auto", policy.KeyNCCLTopology, "fwcfg")},
		{"`mirror`, `port-speed=host`", "", layout("mirror", policy.KeyPortSpeed, "host")},
		{"`mirror`, `port-speed=host`, `gpudirect-clique=host`", "", clique},
	}
}

// TestComparison: docs/comparison.md has what NCCL decides for each tree.
func TestComparison(t *testing.T) {
	l := newLab(t)
	cases := nccl.Cases(t)
	header := []string{"guest"}
	lines := make([][]string, len(rows())+1)
	for i, r := range rows() {
		lines[i+1] = []string{r.title}
	}

	lines[0] = []string{"the host itself"}

	for _, m := range compared {
		c := cases[slices.IndexFunc(cases, func(c nccl.Case) bool { return c.Name == m.name })]
		host := l.host(t, c)
		want := host.Outcome(host)
		header = append(header, m.title)
		lines[0] = append(lines[0], fmt.Sprintf("%d of %d, %d, %.0f, %.0f GB/s",
			want.GDR, want.GPUs, want.Right, want.Ring, want.AllReduce))
		for i, r := range rows() {
			got := l.row(t, c, r, host)
			lines[i+1] = append(lines[i+1], got)
		}
	}

	table := markdown(header, merge(lines))
	const file = "../../docs/comparison.md"
	text := string(expect.File(t, file))
	start := strings.Index(text, "| guest | ")
	if start < 0 {
		t.Fatalf("%s has no table of guests", file)
	}

	end := start + strings.Index(text[start:], "\n\n") + 1
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(text[:start]+table+text[end:]), 0o644))
		return
	}

	expect.Same(t, text[start:end], table, "%s (-is +want), rewrite with -update", file)
}

// row returns a cell of the table: GPUs with GPUDirect RDMA, GPUs with the host's NIC, ring and
// all-reduce as parts of the host's.
func (l lab) row(t *testing.T, c nccl.Case, r row, host nccl.Decisions) string {
	t.Helper()
	want := host.Outcome(host)
	var got nccl.Outcome
	switch {
	case r.form != nil:
		got = l.guest(t, c, *r.form).Outcome(host)
	case r.core != "":
		domain, err := r.core.Domain(matrix.Sysfs{FS: c.Sysfs}, c.NUMA, c.Devices)
		expect.NoError(t, err)
		got = l.domain(t, c, domain, "", false).Outcome(host)

	default:
		got = l.domain(t, c, c.Domain, "", false).Outcome(host)
	}

	return fmt.Sprintf("%d, %d, %.2f, %.2f",
		got.GDR, got.Right, got.Ring/want.Ring, got.AllReduce/want.AllReduce)
}

// merge joins neighbouring rows whose cells are the same; the title names all of them.
func merge(rows [][]string) [][]string {
	var merged [][]string
	for _, row := range rows {
		if last := len(merged) - 1; last >= 0 && slices.Equal(merged[last][1:], row[1:]) {
			merged[last][0] += "; " + row[0]
			continue
		}

		merged = append(merged, row)
	}

	return merged
}

// markdown formats a table.
func markdown(header []string, lines [][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(header, " | "),
		strings.Repeat("---|", len(header)))
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(line, " | "))
	}

	return b.String()
}
