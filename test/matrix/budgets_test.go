package matrix_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// machine is a host of n equal parts, each with as many devices.
type machine struct {
	name string // as docs/layouts.md has it
	each int
	part func(n int) string // the host's lines of part n
}

func machines() []machine {
	return []machine{
		{"one device on each root port of one PCIe root", 1, func(n int) string {
			return fmt.Sprintf("pci0000:00/0000:00:%02x.%x/0000:%02x:00.0 node=0\n", n/8, n%8, n+1)
		}},
		{"one device on each PCIe root", 1, func(n int) string {
			return fmt.Sprintf("pci%04x:00/%04x:00:01.0/%04x:01:00.0 node=0\n", n, n, n)
		}},
		{"a GPU and a NIC under a switch on each PCIe root", 2, func(n int) string {
			return switched(n, 2)
		}},
		{"four devices under a switch on each PCIe root", 4, func(n int) string {
			return switched(n, 4)
		}},
		{"eight devices under a switch on each PCIe root", 8, func(n int) string {
			return switched(n, 8)
		}},
	}
}

// switched returns a PCIe root with a switch and its devices.
func switched(root, devices int) string {
	var lines strings.Builder
	for d := range devices {
		fmt.Fprintf(&lines,
			"pci%04x:00/%04x:00:01.0/%04x:01:00.0/%04x:02:%02x.0/%04x:%02x:00.0 node=0\n", root, root, root, root, d, root, 3+d)
	}

	return lines.String()
}

// host returns the machine with n parts, and its devices.
func (m machine) host(n int) (text string, devices []string) {
	text = "cpus 0 0-7\n"
	for part := range n {
		text += m.part(part)
	}

	for line := range strings.Lines(text) {
		if path, _, isDevice := strings.Cut(line, " node="); isDevice {
			devices = append(devices, path[strings.LastIndex(path, "/")+1:])
		}
	}

	return text, devices
}

// plan plans for n parts; refused is the warning when the plan does not fit.
func (m machine) plan(t *testing.T, layout policy.Layout, n int) (refused string) {
	t.Helper()
	text, devices := m.host(n)
	host := expect.Host(t, text)
	domain := matrix.Domain(matrix.GuestNUMA{{0}}, devices)
	planner := plan.Planner{
		Sysfs:  host,
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}},
	}

	result := planner.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	for _, w := range result.Plan.Warnings {
		if w.Code == reasons.CodeBudget {
			refused = w.Text
		}
	}

	for _, d := range result.Plan.Devices {
		if placed := d.Outcome == placement.Placed; placed != (refused == "") {
			t.Fatalf("%s is %s (%s), and the plan warns %q", d.ID, d.Outcome, d.Reason, refused)
		}
	}

	for _, violation := range tree.Violations(domain, result.Domain) {
		t.Errorf("%s with %s, %d parts: %s", m.name, layout, n, violation)
	}

	return refused
}

// tooMany is how a plan reports which budget it exceeds, and by how much.
var tooMany = regexp.MustCompile(`^(bus numbers|functions on the root bus|controller indexes): the layout needs (\d+), (\d+) are free.*: (\d+) too many$`)

// TestBudgets: of each machine as many devices fit as the table in docs/layouts.md says, and no part
// more.
func TestBudgets(t *testing.T) {
	layouts := []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror}
	docs := string(expect.File(t, "../../docs/layouts.md"))
	for _, m := range machines() {
		largest := m.documented(t, docs, len(layouts))
		for i, layout := range layouts {
			t.Run(m.name+"/"+string(layout), func(t *testing.T) {
				parts := largest[i] / m.each
				if refused := m.plan(t, layout, parts); refused != "" {
					t.Errorf("docs/layouts.md says that %d devices fit: %s", largest[i], refused)
				}

				expectTooMany(t, m.plan(t, layout, parts+1))
			})
		}
	}
}

// documented returns the numbers of the machine's row in a page: the devices that fit with each
// layout.
func (m machine) documented(t *testing.T, page string, layouts int) []int {
	t.Helper()
	_, row, isFound := strings.Cut(page, "| "+m.name+" |")
	row, _, _ = strings.Cut(row, "\n")
	cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
	if !isFound || len(cells) != layouts {
		t.Fatalf("docs/layouts.md has no row with %d numbers for %q", layouts, m.name)
	}

	return topology.Map(cells, func(cell string) int {
		number, err := strconv.Atoi(strings.TrimSpace(cell))
		expect.NoError(t, err)
		return number
	})
}

// expectTooMany expects the warning of a layout that needs more controller indexes than are free,
// and that it says how many more.
func expectTooMany(t *testing.T, warning string) {
	t.Helper()
	parts := tooMany.FindStringSubmatch(warning)
	if parts == nil {
		t.Fatalf("no budget and excess in %q", warning)
	}

	var need, free, excess int
	_, err := fmt.Sscan(strings.Join(parts[2:], " "), &need, &free, &excess)
	expect.NoError(t, err)
	if excess != need-free || excess < 1 {
		t.Errorf("%s: %d needed less %d free is not %d", warning, need, free, excess)
	}

	if parts[1] != "controller indexes" {
		t.Errorf("%s: controller indexes do not run out first, as the page says", warning)
	}
}

// TestCoarser: where the tree that auto wants does not fit, a coarser one is built, and a warning
// says what did not fit.
func TestCoarser(t *testing.T) {
	const roots = 130 // two controllers for each are more than there are indexes
	text, devices := machines()[1].host(roots)
	planner := plan.Planner{
		Sysfs: expect.Host(t, text), Source: policy.Source{Flags: withLayout(policy.LayoutAuto)},
	}

	result := planner.Read(plan.Request{Domain: matrix.Domain(matrix.GuestNUMA{{0}},
		devices)}).Plan()
	expect.NoError(t, result.Err)

	const warning = "numa is built, since root does not fit: controller indexes: the layout needs 260, "
	isCoarser := func(w reasons.Finding) bool {
		return w.Code == reasons.CodeCoarserLayout && strings.HasPrefix(w.Text, warning)
	}

	if result.Plan.Layout != policy.LayoutNUMA ||
		!slices.ContainsFunc(result.Plan.Warnings, isCoarser) {
		t.Errorf("layout %s, %v; want numa and the warning %q", result.Plan.Layout,
			result.Plan.Warnings, warning)
	}

	for _, d := range result.Plan.Devices {
		if d.Outcome != placement.Placed {
			t.Errorf("%s is %s", d.ID, d.Outcome)
		}
	}
}

// TestSixteenSwitches: the largest machines that exist have 16 switches on 16 PCIe
// roots, with one device or a pair of them under each. Both fit.
func TestSixteenSwitches(t *testing.T) {
	for _, each := range []int{1, 2} {
		m := machine{fmt.Sprintf("%d under each of 16 switches", each), each, func(n int) string {
			return switched(n, each)
		}}
		if refused := m.plan(t, policy.LayoutMirror, 16); refused != "" {
			t.Errorf("%s: %s", m.name, refused)
		}
	}
}

// TestShrink: a domain that was placed, read back, and then loses devices is placed again. The
// controllers of the lost ones become ports of the root bus, which need bus numbers.
func TestShrink(t *testing.T) {
	const cells = 4
	text := ""
	var devices []string
	for n := range 160 {
		if n < cells {
			text += fmt.Sprintf("cpus %d %d-%d\n", n, 8*n, 8*n+7)
		}

		device := fmt.Sprintf("0000:%02x:00.0", n+1)
		devices = append(devices, device)
		text += fmt.Sprintf("pci0000:00/0000:00:%02x.%x/%s node=%d\n", n/8, n%8, device, n%cells)
	}

	host := expect.Host(t, text)
	planner := plan.Planner{
		Sysfs: host, Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: "numa"}},
	}

	large := planner.Read(plan.Request{
		Domain: matrix.Domain(matrix.GuestNUMA{{0}, {1}, {2}, {3}}, devices),
	}).Plan()

	if large.Err != nil {
		t.Fatal(large.Err)
	}

	readback, err := oracle.New(t).Readback(large.Domain)
	expect.NoError(t, err)

	for _, left := range []int{159, 120, 80, 40, 20, 4, 1} {
		domain := regexp.MustCompile(`(?s)\s*<hostdev.*?</hostdev>`).ReplaceAllFunc(readback,
			keepFirst(left))
		small := planner.Read(plan.Request{Domain: domain}).Plan()
		if small.Err != nil {
			t.Fatal(small.Err)
		}

		placed := 0
		for _, d := range small.Plan.Devices {
			if d.Outcome != placement.Unplaced {
				placed++
			}
		}

		if placed != left {
			t.Errorf("%d of %d devices are placed: %v", placed, left, small.Plan.Warnings)
		}
	}
}

// TestShrinkFunctions: a domain with more expander buses than slots, read back, loses devices.
// What is left is placed again, and libvirt accepts it: no function keeps a slot that loses
// function 0.
func TestShrinkFunctions(t *testing.T) {
	lib := oracle.New(t)
	text, devices := machines()[1].host(60)
	planner := plan.Planner{
		Sysfs: expect.Host(t, text), Source: policy.Source{Flags: withLayout(policy.LayoutRoot)},
	}

	large := planner.Read(plan.Request{Domain: matrix.Domain(matrix.GuestNUMA{{0}},
		devices)}).Plan()
	expect.NoError(t, large.Err)
	readback := lib.Check(t, large.Domain)

	hostdev := regexp.MustCompile(`(?s)\s*<hostdev.*?</hostdev>`)
	for _, left := range []int{59, 40, 24, 23, 2, 1} {
		domain := hostdev.ReplaceAllFunc(readback, keepFirst(left))
		small := planner.Read(plan.Request{Domain: domain}).Plan()
		expect.NoError(t, small.Err)

		for _, d := range small.Plan.Devices {
			if d.Outcome == placement.Unplaced {
				t.Errorf("%d left: %s is %s: %v", left, d.ID, d.Reason, small.Plan.Warnings)
			}
		}

		for _, violation := range tree.Violations(domain, small.Domain) {
			t.Errorf("%d left: %s", left, violation)
		}

		lib.Check(t, small.Domain)
	}
}

// keepFirst keeps the first n matches.
func keepFirst(n int) func([]byte) []byte {
	return func(found []byte) []byte {
		if n--; n < 0 {
			return nil
		}
		return found
	}
}
