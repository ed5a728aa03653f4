package matrix_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/hostfs"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// trees returns the seeds of the random hosts that are tried. `.ci/run fuzz` tries more.
func trees(t *testing.T) []uint64 {
	t.Helper()
	return seeds(t, "TREES", 8, 40)
}

// seeds returns the seeds that a test tries: a sample, or as many from 0 as a variable says.
func seeds(t *testing.T, variable string, few, whole int) []uint64 {
	t.Helper()
	count := fromEnviron(t, variable, 0)
	if count == 0 {
		return expect.Seeds(few, whole)
	}

	all := make([]uint64, count)
	for i := range all {
		all[i] = uint64(i)
	}

	return all
}

// fromEnviron returns the number that a variable of the environment has, or another one without it.
func fromEnviron(t *testing.T, variable string, without int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return without
	}

	n, err := strconv.ParseUint(text, 10, 31)
	expect.NoError(t, err)
	return int(n)
}

// TestHosts passes through everything that each host of testdata has for that, and compares the
// path types of the guest with those of the host.
func TestHosts(t *testing.T) {
	lib := oracle.New(t)
	everyHost(t, func(name string, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		checkLayouts(t, lib, name, host, devices, numa)
	})
}

func readHost(t *testing.T, file string) fs.FS {
	t.Helper()
	data := expect.File(t, file)
	host, err := host.ParseSnapshot(data)
	expect.NoError(t, err)
	return host
}

// TestTrees does the same for random hosts.
func TestTrees(t *testing.T) {
	lib, fitted, trees := oracle.New(t), 0, trees(t)
	for _, seed := range trees {
		h := matrix.NewRandomHost(seed)
		host, err := hostfs.Parse(h.Text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, h.Text)
		}

		name := fmt.Sprintf("seed %d", seed)
		fitted += checkLayouts(t, lib, name, newWholeHost(t, host, h.Devices), h.Devices, h.NUMA)
		if t.Failed() {
			t.Fatalf("%s: cells %v, devices %v of the host\n%s", name, h.NUMA, h.Devices, h.Text)
		}
	}

	// Nearly all trees are made to fit: a product that places nothing would pass all
	// other checks.
	if want := len(trees) * len(policy.TreeLayouts()) * 2 * 95 / 100; fitted < want {
		t.Errorf("%d plans fit, want at least %d", fitted, want)
	}
}

// TestTreesLibvirt lets a real libvirt check the results for some random hosts, with one layout
// each, or with all of them with WHOLE=1.
func TestTreesLibvirt(t *testing.T) {
	lib := oracle.New(t)
	for seed := range uint64(20) {
		h := matrix.NewRandomHost(seed)
		host := expect.Host(t, h.Text)
		for _, layout := range expect.Sampled(int(seed), []policy.Layout{
			policy.LayoutRoot, policy.LayoutSwitch, policy.LayoutMirror,
		}) {
			t.Run(fmt.Sprintf("seed %d/%s", seed, layout), func(t *testing.T) {
				m := plan.Planner{
					Sysfs: host,
					Source: policy.Source{
						Flags: map[policy.Key]string{policy.KeyLayout: string(layout)},
					},
				}
				planned := m.Read(plan.Request{Domain: matrix.Domain(h.NUMA, h.Devices)}).Plan()
				lib.Check(t, planned.Domain)
			})
		}
	}
}

// checkLayouts checks every layout, for the domain of a first call and for that of
// a later one, which libvirt has read back. It returns how many plans fit.
func checkLayouts(
	t *testing.T, lib *oracle.Libvirt, name string, host wholeHost, devices []string,
	numa matrix.GuestNUMA,
) (fitted int) {
	first := matrix.Domain(numa, devices)
	later, err := lib.Readback(first)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}

	for _, layout := range policy.TreeLayouts() {
		for call, domain := range [][]byte{first, later} {
			t.Run(fmt.Sprintf("%s/%s/call %d", name, layout, call+1), func(t *testing.T) {
				c := checker{T: t, layout: layout, host: host, numa: numa}
				if c.check(domain, devices) {
					fitted++
				}
			})
		}
	}

	return fitted
}

// checker compares one mutation with what the layout promises.
type checker struct {
	*testing.T
	layout policy.Layout
	host   wholeHost
	numa   matrix.GuestNUMA
}

// device is a device's place on the host and in the guest.
type device struct {
	id            string
	host, guest   tree.Spot
	found, placed bool // on the host; under an expander bus of the guest
	cell          int  // the guest cell that it belongs to, or tree.Unknown
}

// check returns false if the plan does not fit.
func (c checker) check(domain []byte, devices []string) bool {
	m := c.host.planner
	m.Source = policy.Source{Flags: withLayout(c.layout)}
	result := m.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		c.Fatal(result.Err)
	}

	if reasons.CodeBudget.IsIn(result.Plan.Warnings) {
		return false
	}

	if again := m.Read(plan.Request{Domain: result.Domain}).Plan(); again.Err != nil ||
		!bytes.Equal(again.Domain, result.Domain) {
		c.Errorf("a second call changes the result, error %v", again.Err)
	}

	for _, violation := range tree.Violations(domain, result.Domain) {
		c.Error(violation)
	}

	guest, err := tree.Read(result.Domain)
	if err != nil {
		c.Fatal(err)
	}

	all := c.devices(guest, devices)
	c.order(guest, all)

	for i, a := range all {
		c.device(a)
		for _, b := range all[:i] {
			c.pair(a, b)
		}
	}

	return true
}

func (c checker) devices(guest *tree.Tree, ids []string) []device {
	all := make([]device, len(ids))
	for i, id := range ids {
		d := device{id: id, cell: tree.Unknown}
		var err error
		if d.host, d.found, err = c.host.Spot(id); err != nil {
			c.Fatal(err)
		}

		d.guest, d.placed = guest.Spot(id)
		if d.found {
			d.cell = c.numa.CellOf(d.host.Node)
		}

		all[i] = d
	}

	return c.adopted(all)
}

// adopted gives a device whose host node is unknown the lowest cell of the
// devices under the same host bridge, so that they stay under one expander bus.
func (c checker) adopted(all []device) []device {
	if c.layout == policy.LayoutNUMA {
		return all
	}

	got := slices.Clone(all)
	for i, d := range all {
		if d.host.Node != tree.Unknown {
			continue
		}
		for _, other := range all {
			if d.found && other.host.Root == d.host.Root && other.cell != tree.Unknown &&
				(got[i].cell == tree.Unknown || other.cell < got[i].cell) {
				got[i].cell = other.cell
			}
		}
	}

	return got
}

// device: a device that the host has is placed under an expander bus of its cell.
// Without a cell it stays on the root bus with numa; with the other layouts it is
// under an expander bus without a cell.
func (c checker) device(d device) {
	want := d.found && (d.cell != tree.Unknown || c.layout != policy.LayoutNUMA)
	if d.placed != want || d.placed && d.guest.Node != d.cell {
		c.Errorf("%s on node %d: placed %v in cell %d, want %v in cell %d", d.id, d.host.Node,
			d.placed, d.guest.Node, want, d.cell)
	}
}

// order: the guest has placed devices in the order of the host, as far as the tree allows.
func (c checker) order(guest *tree.Tree, all []device) {
	var placed []string
	for _, d := range all {
		if d.placed {
			placed = append(placed, d.id)
		}
	}

	for _, wrong := range guest.OutOfOrder(c.host.InOrder(placed)) {
		c.Error(wrong)
	}
}

// pair compares the path type of two placed devices with what the layout makes
// of the host's.
func (c checker) pair(a, b device) {
	if !a.found || !b.found || !a.placed || !b.placed {
		return
	}

	host, guest := tree.PathType(a.host, b.host), tree.PathType(a.guest, b.guest)
	want := c.promised(host, a.cell, b.cell)

	// Functions of one device share a slot: nothing is between them.
	if a.guest.Slot == b.guest.Slot {
		want = "PIX"
		if a.host.Slot != b.host.Slot {
			c.Errorf("%s and %s share a slot in the guest, not on the host", a.id, b.id)
		}
	}

	if guest != want {
		c.Errorf("%s and %s: %s on the host, %s in the guest, want %s\nhost %v, %v\nguest %v, %v",
			a.id, b.id, host, guest, want, a.host, b.host, a.guest, b.guest)
	}
}

// promised returns the path type of two placed devices in the guest.
func (c checker) promised(host string, cellA, cellB int) string {
	within := strings.Contains("PIX PXB PHB", host)
	switch {
	case c.layout != policy.LayoutNUMA && within && cellA != cellB:
		return "SYS" // one host bridge and two nodes: the node counts
	case c.layout == policy.LayoutSwitch && host == "PXB":
		return "PIX"
	case (c.layout == policy.LayoutSwitch || c.layout == policy.LayoutMirror) && within:
		return host
	case c.layout == policy.LayoutRoot && within:
		return "PHB"
	case cellA == tree.Unknown || cellB == tree.Unknown || cellA != cellB:
		return "SYS"
	case c.layout == policy.LayoutNUMA:
		return "PHB"
	}

	return "NODE"
}
