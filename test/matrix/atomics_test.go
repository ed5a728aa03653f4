package matrix_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// radeonHost is a host whose GPUs and accelerators are all AMD's Radeon RX 7900 (1002:744c).
type radeonHost struct{ fs.FS }

// Open opens the ids of a GPU in place of the host's own.
func (h radeonHost) Open(name string) (fs.File, error) {
	id, isID := map[string]string{"vendor": "0x1002\n", "device": "0x744c\n"}[path.Base(name)]
	class, _ := fs.ReadFile(h.FS, path.Join(path.Dir(name), "class"))
	if isID && (strings.HasPrefix(string(class), "0x03") || strings.HasPrefix(string(class), "0x12")) {
		return fstest.MapFS{"id": {Data: []byte(id), Mode: 0o444}}.Open("id")
	}

	return h.FS.Open(name)
}

// Lstat implements fs.ReadLinkFS.
func (h radeonHost) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(h.FS, name) }

// ReadLink implements fs.ReadLinkFS.
func (h radeonHost) ReadLink(name string) (string, error) { return fs.ReadLink(h.FS, name) }

// TestAtomics: in no layout that a VM's owner did not ask for does a whole AMD GPU that is placed, or
// kept as aligned, lose PCIe AtomicOps, whatever tree its domain came with; one that stays without
// them has a finding. The second call changes nothing, and other pairs are no worse.
func TestAtomics(t *testing.T) {
	seen := 0
	everyMachine(t, func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		radeons := newWholeHost(t, radeonHost{host.FS}, devices)
		first := matrix.Domain(numa, devices)
		came := map[string][]byte{"": first}
		for _, layout := range policy.TreeLayouts() {
			came[string(layout)], _ = run(t, radeons.planner, withLayout(layout), first)
		}

		for _, form := range matrix.CoreTrees {
			domain, err := form.Domain(host.Sysfs, numa, devices)
			expect.NoError(t, err)
			came[string(form)] = domain
		}

		for n, from := range slices.Sorted(maps.Keys(came)) {
			for _, layout := range expect.Sampled(n, append(policy.TreeLayouts(), policy.LayoutAuto)) {
				c := atomicsCheck{t, fmt.Sprintf("%s from %q", layout, from), radeons}
				seen += c.check(layout, came[from], devices)
			}
		}
	})

	if seen < 500 {
		t.Errorf("%d GPUs were looked at, want at least 500", seen)
	}
}

// TestAtomicsOfCases: the same for the domains of every fifth case, with WHOLE=1 of each, whose
// GPUs become AMD's.
func TestAtomicsOfCases(t *testing.T) {
	for _, c := range cases.Sampled(t, "../..", 5) {
		if c.Planner.Sysfs == nil {
			continue
		}

		c.Planner.Sysfs = radeonHost{c.Planner.Sysfs}
		vm := c.Planner.Read(c.Request)
		result := vm.Plan()
		if result.Plan == nil || result.Policy.AsksForSwitches() || result.Policy.DryRun ||
			result.Err != nil {
			continue
		}

		expectAtomics(t, c.Name, result)
		again := c.Planner.Read(plan.Request{Domain: result.Domain, VMI: c.Request.VMI}).Plan()
		if !bytes.Equal(again.Domain, result.Domain) {
			t.Errorf("%s: a second call changes the result, error %v", c.Name, again.Err)
		}
	}
}

// TestCompanionsShare: where a root port for each function of 62 Radeons fits in no layout, their
// GPUs have one, and the companions of each share one.
func TestCompanionsShare(t *testing.T) {
	var host strings.Builder
	host.WriteString("cpus 0 0-3\n")
	var devices []string
	for card := range 62 {
		for function, class := range []string{"0x030000", "0x040300", "0x0c0330", "0x0c0330"} {
			id := fmt.Sprintf("0000:%02x:00.%d", card+1, function)
			fmt.Fprintf(&host, "pci0000:00/0000:00:%02x.%d/%s node=0 driver=vfio-pci class=%s "+
				"vendor=0x1002 device=0x744c\n", 1+card/8, card%8, id, class)
			devices = append(devices, id)
		}
	}

	planner := plan.Planner{Sysfs: expect.Host(t, host.String())}
	planner.Flags = withLayout(policy.LayoutNUMA)
	result := planner.Read(plan.Request{
		Domain: matrix.Domain(matrix.GuestNUMA{{0}}, devices),
	}).Plan()
	if got := expectAtomics(t, "62 cards", result); got != 62 {
		t.Errorf("%d GPUs have AtomicOps, want 62", got)
	}

	guest, err := tree.Read(result.Domain)
	expect.NoError(t, err)
	for card := range 62 {
		audio := guest.Hostdevs[devices[4*card+1]].At
		for function := 2; function < 4; function++ {
			if at := guest.Hostdevs[devices[4*card+function]].At; at.Bus != audio.Bus {
				t.Errorf("%s is at %v, %s at %v", devices[4*card+1], audio, devices[4*card+function],
					at)
			}
		}
	}

	again := planner.Read(plan.Request{Domain: result.Domain}).Plan()
	if !bytes.Equal(again.Domain, result.Domain) {
		t.Errorf("a second call changes the result, error %v", again.Err)
	}
}

// atomicsCheck checks the answer of a hook to one domain.
type atomicsCheck struct {
	*testing.T
	what string
	host wholeHost
}

// check returns how many GPUs it looked at.
func (c atomicsCheck) check(layout policy.Layout, domain []byte, devices []string) int {
	c.Helper()
	m := c.host.planner
	m.Source = policy.Source{Flags: withLayout(layout), AnnotationsFirst: true}
	result := m.Read(plan.Request{Domain: domain}).Plan()
	expect.NoError(c, result.Err)
	if again := m.Read(plan.Request{Domain: result.Domain}).Plan(); again.Err != nil ||
		!bytes.Equal(again.Domain, result.Domain) {
		c.Errorf("%s: a second call changes the result, error %v", c.what, again.Err)
	}

	for _, violation := range tree.Violations(domain, result.Domain) {
		c.Errorf("%s: %s", c.what, violation)
	}

	own := map[string]bool{}
	for _, d := range result.Plan.Devices {
		own[d.ID.String()] = d.OwnPort
	}

	others := slices.DeleteFunc(slices.Clone(devices), func(id string) bool { return own[id] })
	compareSteps(c.T, c.what, c.host, domain, result.Domain, others)
	return expectAtomics(c.T, c.what, result)
}

// expectAtomics expects AtomicOps for the whole AMD GPUs of a result that are placed, or kept as
// aligned, and a finding for all others without them. It returns how many have them.
func expectAtomics(t *testing.T, what string, result plan.Result) (count int) {
	t.Helper()
	guest, err := tree.Read(result.Domain)
	expect.NoError(t, err)
	said := ""
	for _, f := range findings.Of(result.Plan) {
		if f.Code == "atomics-lost" {
			said = f.Text
		}
	}

	for _, d := range result.Plan.Devices {
		isPlaced := d.Outcome == placement.Placed || d.Reason == reasons.AlreadyAligned
		has := guest.HasAtomics(d.ID.String())
		switch {
		case !d.NeedsAtomics() || d.Address == nil:
		case has:
			count++
		case isPlaced:
			t.Errorf("%s: %s has no AtomicOps: %s (%s)", what, d.ID, d.Outcome, d.Reason)
		case !strings.Contains(said, d.ID.String()) && !strings.Contains(said, " more"):
			t.Errorf("%s: no finding says that %s, which is %s (%s), has no AtomicOps", what, d.ID,
				d.Outcome, d.Reason)
		}
	}

	return count
}
