//go:build linux && lane

package launcher

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// testPairs makes the table of docs/comparison.md: how many of the 120 pairs of the HGX
// sample's devices are as on the host, in the domain that libvirt defines.
func testPairs(t *testing.T, l lab) {
	hook := func(flags ...string) func(*pod) {
		return func(p *pod) { p.Hook = append([]string{}, flags...) }
	}
	for _, h := range []struct {
		name string
		pod  func(*pod)
		want int
	}{
		{"without the hook", func(*pod) {}, 0},
		{"gate `PCINUMAAwareTopology`", func(p *pod) { p.Aware = true }, 64},
		{"layout `numa`", hook("--layout", "numa"), 64},
		{"layout `root`", hook("--layout", "root"), 112},
		{"layout `mirror`", hook("--layout", "mirror"), 120},
		{"layout `auto`", hook(), 120},
		{"layout `auto` with `nccl-topology`", hook("--nccl-topology", "fwcfg"), 120},
	} {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			r := row{vm: hgx, set: h.pod}
			o := l.here(t, r.pod(t))
			same, all := o.pairs(t, l)
			t.Logf("PAIRS %s: %d of %d", h.name, same, all)
			checkTable(t, h.name, 2, same)
			if same != h.want || all != devices*(devices-1)/2 {
				t.Errorf("%d of %d pairs are as on the host, want %d", same, all, h.want)
			}
		})
	}
}

// checkTable: docs/comparison.md has the number in that column of the row.
func checkTable(t *testing.T, name string, column, want int) {
	t.Helper()
	page := expect.File(t, filepath.Join("..", "..", "docs", "comparison.md"))
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if strings.TrimPrefix(cells[0], "| ") == name && len(cells) >= column {
			if got := strings.TrimSuffix(strings.TrimSpace(cells[column-1]),
				" |"); got != strconv.Itoa(want) {
				t.Errorf("docs/comparison.md has %q for %s, want %d", got, name, want)
			}
			return
		}
	}

	t.Errorf("docs/comparison.md has no row %q", name)
}

// pairs counts the pairs of devices of the domain that libvirt holds, and those with
// the host's path type, as `explain` sees them.
func (o outcome) pairs(t *testing.T, l lab) (same, all int) {
	t.Helper()
	var report struct {
		Paths struct{ Host, Guest [][]string }
	}

	expect.NoError(t,
		json.Unmarshal(o.ask(t, l, "defined.xml", "explain", "-o", "json", "--layout", "keep",
			"--sysfs", hgxFile), &report))

	for i, row := range report.Paths.Host {
		for j, path := range row[:i] {
			all++
			if report.Paths.Guest[i][j] == path {
				same++
			}
		}
	}

	return same, all
}
