package matrix_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/consumers"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/atlas"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/tree"
)

// TestMain collects garbage less often, as that of package plan.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// wholeHost is a host of which all has been read, once for all domains.
type wholeHost struct {
	matrix.Sysfs
	planner plan.Planner
	nodes   []topology.NUMANode
	spots   map[string]tree.Spot
}

func newWholeHost(t *testing.T, sysfs fs.FS, devices []string) wholeHost {
	t.Helper()
	h := wholeHost{Sysfs: matrix.Sysfs{FS: sysfs}, spots: map[string]tree.Spot{}}
	planner, shown, _ := plan.Planner{Sysfs: sysfs}.WholeHost()
	h.planner, h.nodes = planner, shown.Nodes
	for _, id := range devices {
		spot, _, err := h.Spot(id)
		expect.NoError(t, err)
		h.spots[id] = spot
	}

	return h
}

// everyHost calls a function for the devices of each host of testdata, with at most one of four
// forms of guest cells, and with WHOLE=1 with all.
func everyHost(
	t *testing.T,
	try func(name string, host wholeHost, numa matrix.GuestNUMA, devices []string),
) {
	t.Helper()
	files, err := filepath.Glob("../../testdata/hosts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no hosts: %v", err)
	}

	for i, file := range files {
		sysfs := readHost(t, file)
		devices, err := matrix.Sysfs{FS: sysfs}.Endpoints()
		if err != nil || len(devices) < 2 {
			t.Fatalf("%s: devices %v, %v", file, devices, err)
		}

		host := newWholeHost(t, sysfs, devices)
		for j, numa := range []matrix.GuestNUMA{{{0}, {1}}, {{0, 1}}, {{0}}, nil} {
			if expect.IsSampled(i+j, 5) {
				try(fmt.Sprintf("%s/cells %v", filepath.Base(file), numa), host, numa, devices)
			}
		}
	}
}

// everyMachine runs a test for the devices and the cells of each host of testdata (everyHost), and
// of every third one of the atlas and of random hosts, with WHOLE=1 of each.
func everyMachine(
	t *testing.T,
	test func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string),
) {
	try := func(name string, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		t.Run(name, func(t *testing.T) { test(t, host, numa, devices) })
	}

	everyHost(t, try)
	for i, m := range atlas.Machines {
		if !expect.IsSampled(i, 3) {
			continue
		}

		vm := m.VM(t)
		try(m.Title, newWholeHost(t, vm.Sysfs, vm.Devices), vm.NUMA, vm.Devices)
	}

	for seed := range uint64(6) {
		if !expect.IsSampled(int(seed), 3) {
			continue
		}

		h := matrix.NewRandomHost(seed)
		host := newWholeHost(t, expect.Host(t, h.Text), h.Devices)
		try(fmt.Sprintf("seed %d", seed), host, h.NUMA, h.Devices)
	}
}

func run(
	t *testing.T, m plan.Planner, flags map[policy.Key]string, domain []byte,
) (after []byte, fits bool) {
	t.Helper()
	return answer(t, m, policy.Source{Flags: flags}, domain)
}

// answer returns what a policy makes of a domain, and whether the layout fits.
func answer(
	t *testing.T, m plan.Planner, source policy.Source, domain []byte,
) (after []byte, fits bool) {
	t.Helper()
	m.Source = source
	result := m.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	return result.Domain, !reasons.CodeBudget.IsIn(result.Plan.Warnings)
}

func withLayout(layout policy.Layout) map[policy.Key]string {
	return map[policy.Key]string{policy.KeyLayout: string(layout)}
}

// steps says how far each pair of devices is from the host's path type in a
// domain: 0 is as on the host. Left out are pairs of two PCIe roots for which the
// host does not say both NUMA nodes, and pairs of one PCIe root on two nodes: what
// they are is open, and the cell counts more.
func steps(t *testing.T, host wholeHost, domain []byte, devices []string) map[string]int {
	t.Helper()
	guest, err := tree.Read(domain)
	expect.NoError(t, err)
	types := []string{"PIX", "PXB", "PHB", "NODE", "SYS"}
	spots, guestSpots := make([]tree.Spot, len(devices)), make([]tree.Spot, len(devices))
	for i, id := range devices {
		spots[i] = host.spots[id]
		guestSpots[i], _ = guest.Spot(id)
	}

	all := map[string]int{}
	for i, a := range spots {
		for j, b := range spots[:i] {
			unknown := a.Node == tree.Unknown || b.Node == tree.Unknown
			if sameRoot, sameNode := a.Root == b.Root, a.Node == b.Node; !sameRoot && unknown ||
				sameRoot && !sameNode {
				continue
			}

			far := slices.Index(types, tree.PathType(guestSpots[i], guestSpots[j])) -
				slices.Index(types, tree.PathType(a, b))
			all[devices[i]+" and "+devices[j]] = max(far, -far)
		}
	}

	return all
}

// guestType returns the path type of two devices.
func guestType(guest *tree.Tree, a, b string) string {
	spotA, _ := guest.Spot(a)
	spotB, _ := guest.Spot(b)
	return tree.PathType(spotA, spotB)
}

// TestAuto: in the tree of auto no consumer decides more wrongly than without the hook, if a layout
// that fits has that. Of such layouts none has more decisions as on the host, and none with as many
// has a pair nearer to the host's path type.
func TestAuto(t *testing.T) {
	everyMachine(t, func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		first := matrix.Domain(numa, devices)
		for name, flags := range map[string]map[policy.Key]string{
			"":                   withLayout(policy.LayoutAuto),
			"with nccl-topology": {policy.KeyLayout: "auto", policy.KeyNCCLTopology: "fwcfg"},
		} {
			domain, _ := run(t, host.planner, flags, first)
			hasFile := name != ""
			flat := consumersIn(t, host, first, hasFile)
			auto := consumersIn(t, host, domain, hasFile)
			autoSteps := steps(t, host, domain, devices)

			for _, layout := range policy.TreeLayouts() {
				// As the administrator's flag: an owner who asks for a layout may give up AtomicOps.
				source := policy.Source{Flags: withLayout(layout), AnnotationsFirst: true}
				tree, fits := answer(t, host.planner, source, first)
				other := consumersIn(t, host, tree, hasFile)
				isSafe := !claims(t, host, tree, devices) && harmful(other) == 0 &&
					worse(other, flat) == 0
				misleads := layout.HasSwitches() && !hasFile && mirrorMisleads(host, devices)
				switch {
				case !fits || !isSafe || current(t, host, tree).TreeLayout() == "":
					continue
				case harmful(auto) > 0 || worse(auto, flat) > 0:
					t.Errorf("auto %s decides worse than without the hook, %s does not:\n%v\n%v", name,
						layout, auto, other)
				case asOnHost(other) > asOnHost(auto):
					t.Errorf("%s has more decisions as on the host than auto %s:\n%v\n%v", layout, name,
						other, auto)
				case asOnHost(other) < asOnHost(auto) || misleads:
					continue
				}

				for pair, n := range steps(t, host, tree, devices) {
					if autoSteps[pair] > n {
						t.Errorf("auto %s has %s %d steps from the host's path type, %s has %d",
							name, pair, autoSteps[pair], layout, n)
					}
				}
			}
		}
	})
}

// TestAutoOnRandomHosts: on every fifth of 200 random hosts with GPUs and NICs, with WHOLE=1 on
// each, and with CPUs of Intel or AMD, no consumer decides more wrongly in the tree of auto than in
// the flat one that auto measures by, whose devices are in the host's order, if a layout that fits
// has that: with a cell per node, with fewer, and without cells.
func TestAutoOnRandomHosts(t *testing.T) {
	for seed := range uint64(200) {
		if !expect.IsSampled(int(seed), 5) {
			continue
		}

		c := nccl.RandomCase(t, seed, []string{nccl.Intel, nccl.AMD}[seed%2])
		host := newWholeHost(t, c.Sysfs, c.Devices)
		slices.Sort(c.Devices)
		perNode := matrix.CellPerNode(host.nodes)
		for _, numa := range []matrix.GuestNUMA{perNode, matrix.NewRandomHost(seed).NUMA, nil} {
			checkAuto(t, host, numa, c.Devices, fmt.Sprintf("%s, cells %v", c.Name, numa))
		}
	}
}

// checkAuto checks that no consumer decides more wrongly in the tree of auto than in the flat one, if a
// layout that fits has that.
func checkAuto(
	t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string, name string,
) {
	t.Helper()
	first := matrix.Domain(numa, devices)
	domain, _ := run(t, host.planner, withLayout(policy.LayoutAuto), first)
	flat, auto := consumersIn(t, host, first, false), consumersIn(t, host, domain, false)
	if harmful(auto) == 0 && worse(auto, flat) == 0 {
		return
	}

	for _, layout := range policy.TreeLayouts() {
		source := policy.Source{Flags: withLayout(layout), AnnotationsFirst: true}
		tree, fits := answer(t, host.planner, source, first)
		other := consumersIn(t, host, tree, false)
		if fits && harmful(other) == 0 && worse(other, flat) == 0 &&
			!claims(t, host, tree, devices) && current(t, host, tree).TreeLayout() != "" {
			t.Errorf("%s: auto decides worse than without the hook, %s does not:\n%v\n%v\n%v", name,
				layout, flat, auto, other)
		}
	}
}

// consumersIn returns what the consumers decide in a domain; with the topology file NCCL is left
// out, which sees the host in it.
func consumersIn(
	t *testing.T, host wholeHost, domain []byte, hasFile bool,
) (tallies []consumers.Tally) {
	t.Helper()
	return slices.DeleteFunc(current(t, host, domain).Consumers(), func(t consumers.Tally) bool {
		return hasFile && t.Consumer == consumers.NCCL
	})
}

// worse counts the wrong decisions beyond those of another guest, consumer by consumer.
func worse(tallies, other []consumers.Tally) (count int) {
	for i, t := range tallies {
		count += max(0, t.Wrong-other[i].Wrong)
	}
	return count
}

func harmful(tallies []consumers.Tally) (count int) {
	for _, t := range tallies {
		count += t.Harmful
	}
	return count
}

func asOnHost(tallies []consumers.Tally) (count int) {
	for _, t := range tallies {
		count += t.Right
	}
	return count
}

// TestAutoAsCore: without a key no guest has fewer GPUs with GPUDirect RDMA, or with the host's
// NIC, than in any tree of KubeVirt's that is honest: that has no pair under a switch which has none
// on the host, and no path of NCCL's that crosses a slow uplink, and that takes AtomicOps from no
// whole AMD GPU.
func TestAutoAsCore(t *testing.T) {
	compared := map[matrix.CoreTree]int{}
	everyMachine(t, func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		auto, _ := run(t, host.planner, withLayout(policy.LayoutAuto), matrix.Domain(numa, devices))
		got := current(t, host, auto).GPUDirect()
		for _, form := range matrix.CoreTrees {
			came, err := form.Domain(host.Sysfs, numa, devices)
			expect.NoError(t, err)
			core := current(t, host, came)
			if core.SlowsNCCL() || claims(t, host, came, devices) || losesAtomics(core) {
				continue
			}

			compared[form]++
			if want := core.GPUDirect(); got.Guest < want.Guest || got.Right < want.Right {
				t.Errorf("auto %+v, %s %+v", got, form, want)
			}
		}
	})

	for _, form := range matrix.CoreTrees {
		if compared[form] == 0 {
			t.Errorf("%s is honest on no machine, so the test shows nothing", form)
		}
	}
}

// losesAtomics reports whether a whole AMD GPU has no PCIe AtomicOps in a guest.
func losesAtomics(guest *placement.Plan) bool {
	return slices.ContainsFunc(findings.Of(guest), func(f reasons.Finding) bool {
		return f.Code == "atomics-lost"
	})
}

// current returns the plan of a domain as it is.
func current(t *testing.T, host wholeHost, domain []byte) *placement.Plan {
	t.Helper()
	planner := host.planner
	planner.Details = true
	result := planner.Read(plan.Request{Domain: domain}).Current()
	expect.NoError(t, result.Err)
	return result.Plan
}

// claims reports whether two devices share a switch in a domain and not on the host.
func claims(t *testing.T, host wholeHost, domain []byte, devices []string) bool {
	t.Helper()
	guest, err := tree.Read(domain)
	expect.NoError(t, err)
	isNear := func(pathType string) bool { return pathType == "PIX" || pathType == "PXB" }
	for i, a := range devices {
		for _, b := range devices[:i] {
			if isNear(guestType(guest, a, b)) &&
				!isNear(tree.PathType(host.spots[a], host.spots[b])) {
				return true
			}
		}
	}

	return false
}

// right counts the pairs that are as on the host.
func right(steps map[string]int) int {
	count := 0
	for _, n := range steps {
		if n == 0 {
			count++
		}
	}

	return count
}

// mirrorMisleads reports whether two GPUs, accelerators or NICs are passed through
// and one of them shares a switch of the host with another device.
func mirrorMisleads(host wholeHost, devices []string) bool {
	paired, shares := 0, false
	for _, a := range devices {
		if !isClass(host.Sysfs, a, "0x02", "0x03", "0x120000") {
			continue
		}

		paired++
		for _, b := range devices {
			pathType := tree.PathType(host.spots[a], host.spots[b])
			sameSlot := strings.TrimRight(a, "01234567") == strings.TrimRight(b, "01234567")
			if a != b && !sameSlot && strings.HasPrefix(pathType, "P") && pathType != "PHB" {
				shares = true
			}
		}
	}

	return paired > 1 && shares
}

// isClass reports whether the class of a function begins with one of the texts.
// Every mediated device here is part of a GPU.
func isClass(host matrix.Sysfs, id string, classes ...string) bool {
	dir := path.Join("bus/pci/devices", id)
	if !strings.Contains(id, ":") {
		return slices.Contains(classes, "0x03")
	}

	class, err := fs.ReadFile(host.FS, path.Join(dir, "class"))
	if err != nil {
		target, err := fs.ReadLink(host.FS, dir)
		if err != nil {
			return false
		}
		class, _ = fs.ReadFile(host.FS, path.Join(path.Dir(dir), target, "class"))
	}

	return slices.ContainsFunc(classes, func(base string) bool {
		return strings.HasPrefix(string(class), base)
	})
}

// TestNeverWorse: whatever tree a domain has under expander buses, and whatever
// the layout, no pair of devices under them ends further from the host's path
// type than it began, and none further than the layout would have it in a domain
// without a tree; also where one device has yet to be placed. Pairs with a whole AMD GPU are left
// out unless the layout is asked for its switches, since AtomicOps come first. Each machine has one layout's tree to
// begin with, and with WHOLE=1 that of each layout.
func TestNeverWorse(t *testing.T) {
	machine := 0
	everyMachine(t, func(t *testing.T, host wholeHost, numa matrix.GuestNUMA, devices []string) {
		first := matrix.Domain(numa, devices)
		trees := map[policy.Layout][]byte{}
		for _, layout := range append(policy.TreeLayouts(), policy.LayoutAuto) {
			if placed, fits := run(t, host.planner, withLayout(layout), first); fits {
				trees[layout] = placed
			}
		}

		machine++
		for _, from := range expect.Sampled(machine, slices.Sorted(maps.Keys(trees))) {
			placed := trees[from]
			for state, domain := range map[string][]byte{
				"": placed, ", one unplaced": withoutOneAddress(placed, devices),
			} {
				for to, fresh := range trees {
					after, fits := run(t, host.planner, withLayout(to), domain)
					if !fits {
						continue
					}

					compared := devices
					if !to.HasSwitches() {
						compared = slices.DeleteFunc(slices.Clone(devices), host.isWholeAMDGPU)
					}

					what := fmt.Sprintf("%s%s to %s", from, state, to)
					compareSteps(t, what+", as it came", host, domain, after, compared)
					compareSteps(t, what+", fresh", host, fresh, after, compared)
				}
			}
		}
	})
}

// isWholeAMDGPU reports whether a device is one: no virtual function is among those of the machines.
func (h wholeHost) isWholeAMDGPU(id string) bool {
	vendor, _ := fs.ReadFile(h.FS, path.Join(h.Directory(id), "vendor"))
	return strings.HasPrefix(string(vendor), "0x1002") && isClass(h.Sysfs, id, "0x03", "0x12")
}

func compareSteps(
	t *testing.T, what string, host wholeHost, before, after []byte, devices []string,
) {
	t.Helper()

	// Only the devices that were under an expander bus: somebody placed them.
	was, err := tree.Read(before)
	expect.NoError(t, err)
	under := slices.DeleteFunc(slices.Clone(devices), func(id string) bool {
		_, isUnder := was.Spot(id)
		return !isUnder
	})

	old := steps(t, host, before, under)
	for pair, n := range steps(t, host, after, under) {
		if n > old[pair] {
			t.Errorf("%s: %s: %d steps from the host's path type, then %d", what, pair, old[pair],
				n)
		}
	}
}

// withoutOneAddress takes the guest address from the hostdev in the middle: what a
// domain is like where another tool has placed all others.
func withoutOneAddress(domain []byte, devices []string) []byte {
	text := string(domain)
	at := strings.Index(text, fmt.Sprintf(`<alias name="ua-hostdevice-%d">`, len(devices)/2))
	if at < 0 {
		return domain
	}

	start, end := strings.LastIndex(text[:at], "</source>"), at
	if start < 0 || !strings.Contains(text[start:end], "<address") {
		return domain
	}

	return []byte(text[:start] + "</source>" + text[end:])
}
