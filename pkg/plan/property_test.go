package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// TestMain collects garbage less often: it is a fifth of the time of these tests.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// everywhere runs a test for every fifth case on its own host, with one layout, and for other
// cases, as many, on one of the hosts in testdata, with the layout of the simplest or of the
// largest tree. With WHOLE=1 it does so for every case, with every layout and with both. TestGolden
// tries all cases.
func everywhere(t *testing.T, test func(t *testing.T, m plan.Planner, req plan.Request)) {
	hosts := hosts(t)
	names := slices.Sorted(maps.Keys(hosts))
	for i, c := range cases.Load(t, root) {
		other := names[i%len(names)]
		for j, on := range []struct {
			name    string
			sysfs   fs.FS
			layouts []policy.Layout
		}{
			{"", c.Planner.Sysfs, expect.Sampled(i,
				append(layouts(), policy.LayoutKeep, policy.LayoutAuto))},
			{other, hosts[other], expect.Sampled(i/2,
				[]policy.Layout{policy.LayoutNUMA, policy.LayoutMirror})},
		} {
			if !expect.IsSampled(i+j, 5) {
				continue
			}

			for _, layout := range on.layouts {
				m := c.Planner
				m.Sysfs = on.sysfs
				m.Flags = maps.Clone(m.Flags)
				m.Flags[policy.KeyLayout] = string(layout)
				t.Run(fmt.Sprintf("%s/%s/%s", c.Name, on.name, layout), func(t *testing.T) {
					test(t, m, c.Request)
				})
			}
		}
	}
}

func hosts(t *testing.T) map[string]fs.FS {
	files, err := filepath.Glob(filepath.Join(root, "testdata", "hosts", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts: %v", err)
	}

	hosts := map[string]fs.FS{}
	for _, file := range files {
		data := expect.File(t, file)
		if hosts[filepath.Base(file)], err = host.ParseSnapshot(data); err != nil {
			t.Fatal(err)
		}
	}

	return hosts
}

// TestInvariants checks the invariants of docs/architecture.md for one mutation.
func TestInvariants(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, m plan.Planner, req plan.Request) {
		given := bytes.Clone(req.Domain)
		result := m.Read(req).Plan()
		if !bytes.Equal(req.Domain, given) {
			t.Fatal("the input's bytes were written to")
		}

		compareAnswer(t, result, m.Diagnose(m.Answer(req)))
		compareOrders(t, m, req, result)

		if result.Err != nil || !result.Changed() {
			if !bytes.Equal(result.Domain, given) {
				t.Fatal("the plan changes nothing, but the bytes differ")
			}
			return
		}

		again := m.Read(plan.Request{Domain: result.Domain, VMI: req.VMI}).Plan()
		if !bytes.Equal(again.Domain, result.Domain) {
			t.Errorf("a second call changes the result:\n%s", changes(result.Domain, again.Domain))
		}

		for _, violation := range tree.Violations(req.Domain, result.Domain) {
			t.Error(violation)
		}

		if !result.Plan.Policy.DryRun {
			comparePlan(t, result.Plan, read(t, result.Domain))
			compareWithHost(t, m, result)
		}
	})
}

// compareAnswer compares a result with an answer that reads first what it depends on and
// then the rest.
func compareAnswer(t *testing.T, result, answer plan.Result) {
	t.Helper()
	if !bytes.Equal(answer.Domain, result.Domain) ||
		fmt.Sprint(answer.Err) != fmt.Sprint(result.Err) || answer.Strict != result.Strict {
		t.Errorf("the answer differs: error %v and %v\n%s", result.Err, answer.Err,
			changes(result.Domain, answer.Domain))
	}

	expect.Same(t, reportOf(t, result), reportOf(t, answer),
		"the report of the answer differs (-result +answer)")
}

func reportOf(t *testing.T, r plan.Result) string {
	t.Helper()
	text, err := json.MarshalIndent(report.New(r.Plan, r.Changed(), r.Err), "", " ")
	expect.NoError(t, err)
	return string(text)
}

// orderlessReportOf returns the report without what the consumers decide if a device has no address
// yet: libvirt gives it one by its place in the domain, and NCCL numbers devices by address.
func orderlessReportOf(t *testing.T, r plan.Result) string {
	t.Helper()
	text := reportOf(t, r)
	isPending := func(d placement.Decision) bool { return d.Predicted == nil }
	if r.Plan == nil || !slices.ContainsFunc(r.Plan.Devices, isPending) {
		return text
	}

	var all map[string]json.RawMessage
	expect.NoError(t, json.Unmarshal([]byte(text), &all))
	delete(all, "consumers")
	without, err := json.Marshal(all)
	expect.NoError(t, err)
	return string(without)
}

func read(t *testing.T, xml []byte) *tree.Tree {
	t.Helper()
	d, err := tree.Read(xml)
	expect.NoError(t, err)
	return d
}

// comparePlan compares where each hostdev of the domain is with the plan.
func comparePlan(t *testing.T, plan *placement.Plan, got *tree.Tree) {
	t.Helper()
	seen := got.Hostdevs
	for _, d := range plan.Devices {
		want := "<nil>"
		if d.Address != nil {
			want = fmt.Sprintf("0000:%02x:%02x.%x", d.Address.Bus, d.Address.Slot,
				d.Address.Function)
		}

		if at := fmt.Sprint(seen[d.ID.String()].At); at != want {
			t.Errorf("device %s: planned at %s, is at %s", d.ID, want, at)
		}
	}
}

// compareWithHost: the guest has the placed devices in the order of their addresses on the host, as
// far as its tree allows.
func compareWithHost(t *testing.T, m plan.Planner, result plan.Result) {
	t.Helper()
	var placed []string
	for _, d := range result.Plan.Devices {
		if d.Outcome == placement.Placed {
			placed = append(placed, d.ID.String())
		}
	}

	for _, wrong := range read(t, result.Domain).OutOfOrder(matrix.Sysfs{
		FS: m.Sysfs,
	}.InOrder(placed)) {
		t.Error(wrong)
	}
}

var hostdevElement = regexp.MustCompile(`(?s)<hostdev\b.*?</hostdev>`)

// compareOrders reorders the hostdevs of a domain: the plan does not change. The seeds are fixed,
// so that a failure can be reproduced. Those without an address stay in their order where a port
// under a switch or an expander bus is free: libvirt plugs them into free ports in that order
// (src/qemu/qemu_domain_address.c, qemuDomainAssignDevicePCISlots), so another one is another
// guest.
func compareOrders(t *testing.T, m plan.Planner, req plan.Request, want plan.Result) {
	t.Helper()
	elements := hostdevElement.FindAll(req.Domain, -1)
	if len(elements) < 2 {
		return
	}

	isOrdered := slices.ContainsFunc(read(t, req.Domain).FreePorts(), func(c tree.Controller) bool {
		return c.At != nil && c.At.Bus != 0
	})

	var movable []int
	for i, element := range elements {
		if isAddressed := bytes.Count(element, []byte("<address")) > 1; isAddressed || !isOrdered {
			movable = append(movable, i)
		}
	}

	report := orderlessReportOf(t, want)
	for _, seed := range expect.Seeds(1, 3) {
		shuffled := slices.Clone(elements)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(movable), func(i, j int) {
			i, j = movable[i], movable[j]
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})

		next := -1
		domain := hostdevElement.ReplaceAllFunc(req.Domain, func([]byte) []byte {
			next++
			return shuffled[next]
		})

		got := m.Read(plan.Request{Domain: domain, VMI: req.VMI}).Plan()
		expect.Same(t, report, orderlessReportOf(t, got), "order %d (-want +got)", seed)
	}
}

// TestDamaged truncates every third case's domain, with WHOLE=1 each one's, at many offsets: every
// error leaves the bytes as they are, and says where in the document it is.
func TestDamaged(t *testing.T) {
	for _, c := range cases.Sampled(t, root, 3) {
		whole := len(bytes.TrimSpace(c.Request.Domain))
		for cut := 0; cut < whole; cut += 1 + whole/97 {
			damaged := c.Request.Domain[:cut]
			result := c.Planner.Read(plan.Request{Domain: damaged, VMI: c.Request.VMI}).Plan()
			switch {
			case result.Err == nil:
				t.Errorf("%s cut at %d: no error", c.Name, cut)
			case !bytes.Equal(result.Domain, damaged):
				t.Errorf("%s cut at %d: the bytes differ", c.Name, cut)
			case !strings.Contains(result.Err.Error(), "line ") &&
				!strings.Contains(result.Err.Error(), policy.AnnotationPrefix):
				t.Errorf("%s cut at %d: the error does not say where: %v", c.Name, cut, result.Err)
			}
		}
	}
}
