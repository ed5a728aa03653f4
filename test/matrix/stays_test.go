package matrix_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/hostfs"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
	"hook-sidecar/test/tree"
)

// mixed is a domain in which some devices have to stay, and the hook for it.
type mixed struct {
	*rand.Rand
	matrix.RandomHost
	hook   plan.Planner
	host   matrix.Sysfs
	domain []byte
	vmi    []byte
}

// newMixed returns the domain of a seed: as virt-launcher writes it or as a layout places it, with
// the user's own ports and expander buses, as it is or read back, without the addresses of some
// devices. The user keeps some devices and chose the address of one, the host does not show all,
// and some that have an address are conventional. vGPUs are the random host's.
func newMixed(t *testing.T, seed uint64, lib readback.Lib) mixed {
	t.Helper()
	m := mixed{Rand: rand.New(rand.NewPCG(seed, 4)), RandomHost: matrix.NewRandomHost(3000 + seed)}
	sysfs := expect.Host(t, m.Text)
	m.domain = matrix.Domain(m.NUMA, m.Devices)
	if m.IntN(2) == 0 {
		m.domain, _ = run(t, plan.Planner{Sysfs: sysfs}, m.layout(), m.domain)
	}

	m.addControllers(t)
	if len(m.NUMA) > 0 && m.IntN(2) == 0 {
		m.replace("</memory>", "</memory>\n\t<maxMemory slots=\"4\" unit=\"GiB\">64</maxMemory>")
	}

	if chosen := fmt.Sprint("ua-hostdevice-", m.IntN(8)); m.IntN(3) == 0 {
		m.replace(chosen+`"`, `ua-sriov-net1"`)
		m.vmi = []byte(`{"spec": {"domain": {"devices": {"interfaces": [{"name": "net1", "pciAddress": "0000:02:00.0"}]}}}}`)
	}

	if m.IntN(3) > 0 {
		var err error
		m.domain, err = lib(m.domain)
		expect.NoError(t, err)
		m.loseAddresses(t)
	}

	read, err := tree.Read(m.domain)
	expect.NoError(t, err)
	m.hook = plan.Planner{Sysfs: m.degrade(t, read), Source: policy.Source{Flags: m.layout()}}
	m.host = matrix.Sysfs{FS: m.hook.Sysfs}

	for i := range m.Devices {
		if m.IntN(8) == 0 {
			m.hook.Keep = append(m.hook.Keep, fmt.Sprint("ua-hostdevice-", i))
		}
	}

	return m
}

func (m *mixed) layout() map[policy.Key]string {
	layouts := append(policy.TreeLayouts(), policy.LayoutAuto)
	return withLayout(layouts[m.IntN(len(layouts))])
}

func (m *mixed) replace(old, now string) {
	m.domain = bytes.Replace(m.domain, []byte(old), []byte(now), 1)
}

// addControllers adds expander buses with one device each, of which a layout may need fewer, free
// root ports, and expander buses with free ports.
func (m *mixed) addControllers(t *testing.T) {
	read, err := tree.Read(m.domain)
	expect.NoError(t, err)
	next, busNr := 1, 256
	for index, c := range read.Controllers {
		next = max(next, index+1)
		if c.BusNr != tree.Unknown {
			busNr = min(busNr, c.BusNr)
		}
	}

	add := func(model, rest string) {
		m.replace("\t</devices>",
			fmt.Sprintf("\t\t<controller type=\"pci\" index=\"%d\" model=\"%s\">%s</controller>\n\t</devices>", next, model, rest))
		next++
	}

	addExpander := func(rest string) (index int) {
		busNr -= 8
		add("pcie-expander-bus", fmt.Sprintf("<target busNr=\"%d\"/>", busNr)+rest)
		return next - 1
	}

	used := map[int]bool{}
	for _, device := range read.Devices {
		if device.At != nil && device.At.Bus == 0 {
			used[device.At.Slot] = true
		}
	}

	// onRootBus returns the address of a slot of the root bus, or of the next free one below: the
	// plan may have put expander buses of its own there, and libvirt refuses two in one slot.
	onRootBus := func(slot int) string {
		for used[slot] {
			slot--
		}

		used[slot] = true
		return fmt.Sprintf("<address type=\"pci\" bus=\"0x00\" slot=\"0x%02x\"/>", slot)
	}

	kind := m.IntN(3)
	for i, id := range m.Devices {
		if kind == 0 || len(m.Devices) > 8 || read.Hostdevs[id].At != nil {
			continue
		}

		address := ""
		if kind == 1 {
			address = onRootBus(0x12 + i)
		}

		add("pcie-root-port",
			fmt.Sprintf("<address type=\"pci\" bus=\"0x%02x\" slot=\"0x00\"/>",
				addExpander(address)))

		alias := fmt.Sprintf("<alias name=\"ua-hostdevice-%d\"></alias>", i)
		m.replace(alias,
			fmt.Sprintf("%s<address type=\"pci\" bus=\"0x%02x\" slot=\"0x00\"/>", alias, next-1))
	}

	for range m.IntN(3) {
		if m.IntN(2) == 0 {
			add("pcie-root-port", onRootBus(6+next%12))
			continue
		}

		expander := addExpander("")
		for slot := range 1 + m.IntN(2) {
			add("pcie-root-port",
				fmt.Sprintf("<address type=\"pci\" bus=\"0x%02x\" slot=\"0x%02x\"/>", expander,
					slot))
		}
	}
}

// loseAddresses removes the addresses of some disks, NICs and hostdevs, in every other domain
// also of expander buses and root ports, some of which go: libvirt makes root ports of their
// indexes. It leaves more than an expander bus has slots alone, where libvirt would plug a NIC
// into a port that is not function 0.
func (m *mixed) loseAddresses(t *testing.T) {
	if len(m.Devices) > 32 {
		return
	}

	losing := []string{"disk", "interface", "hostdev"}
	if m.IntN(2) == 0 {
		losing = append(losing, "pcie-root-port", "pcie-expander-bus")
	}

	root, err := tree.Parse(m.domain)
	expect.NoError(t, err)

	for _, device := range slices.Backward(root.Find("devices").Nodes) {
		if !slices.Contains(losing, device.Name) &&
			!slices.Contains(losing, device.Attr("model")) || m.IntN(4) > 0 {
			continue
		}

		if device.Attr("model") == "pcie-root-port" && m.IntN(2) == 0 {
			m.domain = slices.Delete(m.domain, device.Start, device.End)
			continue
		}

		for _, n := range device.Nodes {
			if n.Name == "address" {
				m.domain = slices.Delete(m.domain, n.Start, n.End)
			}
		}
	}
}

// degrade returns the host without some devices, and with some conventional ones: of those that
// have an address, since this libvirt's own host lacks them all.
func (m *mixed) degrade(t *testing.T, domain *tree.Tree) hostfs.Files {
	lines := strings.Split(m.Text, "\n")
	for i, line := range lines {
		path, settings, _ := strings.Cut(line, " ")
		h, isPassed := domain.Hostdevs[path[strings.LastIndex(path, "/")+1:]]
		switch isFunction := strings.Contains(settings,
			"driver=vfio-pci") && !strings.Contains(settings, "physfn"); {
		case isFunction && m.IntN(12) == 0:
			lines[i] = ""
		case isFunction && isPassed && h.At != nil && m.IntN(8) == 0:
			lines[i] += " conventional"
		}
	}

	return expect.Host(t, strings.Join(lines, "\n"))
}

// TestBesideStaying: in domains with devices that have to stay, every pair of devices and every
// disk, NIC and controller is compared with what libvirt makes of the domain without the hook.
func TestBesideStaying(t *testing.T) {
	libvirt := oracle.New(t)
	lib := libvirt.Readback
	placed, named := 0, 0
	for _, seed := range trees(t) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := newMixed(t, seed, lib)
			without, err := lib(m.domain)
			if err != nil {
				t.Skip(err)
			}

			result := m.hook.Read(plan.Request{Domain: m.domain, VMI: m.vmi}).Plan()
			expect.NoError(t, result.Err)
			with, err := lib(result.Domain)
			if err != nil {
				t.Fatalf("libvirt accepts\n%s\nbut not the result\n%s\n%v", m.domain, result.Domain,
					err)
			}

			for _, violation := range tree.Violations(m.domain, result.Domain) {
				t.Error(violation)
			}

			m.compareAddresses(t, result)
			named += m.comparePairs(t, result, without, with)
			if !libvirt.IsByIndex() && reasons.CodeLibvirt9.IsIn(result.Plan.Warnings) {
				return
			}

			expect.Same(t, seen(t, without), seen(t, with),
				"disks, NICs or controllers move (-without the hook +with it)")
			m.again(t, result, with)
			placed += result.Plan.Pairs().Alike
			if t.Failed() {
				t.Logf("%v, kept %v\n%s", m.hook.Flags, m.hook.Keep, m.domain)
			}
		})
	}

	if placed == 0 || named == 0 {
		t.Errorf("%d pairs are as on the host, %d are named: want some of both", placed, named)
	}
}

// again: the hook changes its own result no more, and moves nothing in what libvirt reads back of
// it.
func (m mixed) again(t *testing.T, result plan.Result, with []byte) {
	t.Helper()
	if again := m.hook.Read(plan.Request{
		Domain: result.Domain, VMI: m.vmi,
	}).Plan(); again.Err != nil || !bytes.Equal(again.Domain, result.Domain) {
		t.Errorf("a second call changes the result, error %v:\n%s", again.Err, again.Domain)
	}

	later := m.hook.Read(plan.Request{Domain: with, VMI: m.vmi}).Plan()
	if c := later.Plan.Changes; len(c.AddControllers)+len(c.RemoveControllers)+len(c.Place) > 0 {
		t.Errorf("a call after libvirt changes %+v: %s, then %s", c, describe(result),
			describe(later))
	}
}

func describe(r plan.Result) string {
	text := fmt.Sprint(r.Plan.Choice, r.Plan.Warnings)
	for _, d := range r.Plan.Devices {
		text += fmt.Sprint("\n", d.ID, " ", d.Outcome, " ", d.Reason, " ", d.Address, " ",
			d.GuestPath)
	}

	return text
}

// compareAddresses: what is not placed has the address that it had, on the same bus.
func (m mixed) compareAddresses(t *testing.T, result plan.Result) {
	t.Helper()
	before, errBefore := tree.Read(m.domain)
	after, errAfter := tree.Read(result.Domain)
	if errBefore != nil || errAfter != nil {
		t.Fatal(errBefore, errAfter)
	}

	for _, d := range result.Plan.Devices {
		was, is := before.Hostdevs[d.ID.String()].At, after.Hostdevs[d.ID.String()].At
		if d.Outcome != placement.Placed &&
			(fmt.Sprint(was) != fmt.Sprint(is) || before.RootBus(was) != after.RootBus(is)) {
			t.Errorf("%s is %s, %s, and goes from %v to %v", d.ID, d.Outcome, d.Reason, was, is)
		}
	}
}

// comparePairs: a pair of placed devices ends no further from the host's path type than without the
// hook, unless their cells leave no choice; any other that does is named. It counts these.
func (m mixed) comparePairs(t *testing.T, result plan.Result, without, with []byte) (named int) {
	t.Helper()
	placed := map[string]bool{}
	for _, d := range result.Plan.Devices {
		placed[d.ID.String()] = d.Outcome == placement.Placed
	}

	before, errBefore := tree.Read(without)
	after, errAfter := tree.Read(with)
	if errBefore != nil || errAfter != nil {
		t.Fatal(errBefore, errAfter)
	}

	types := []string{"PIX", "PXB", "PHB", "NODE", "SYS"}
	for i, a := range m.Devices {
		spotA, isShownA, err := m.host.Spot(a)
		expect.NoError(t, err)

		for _, b := range m.Devices[:i] {
			spotB, isShownB, err := m.host.Spot(b)
			expect.NoError(t, err)

			host, was, is := tree.PathType(spotA, spotB), guestType(before, a, b), guestType(after,
				a, b)
			steps := func(guest string) int {
				return max(slices.Index(types, guest)-slices.Index(types, host),
					slices.Index(types, host)-slices.Index(types, guest))
			}
			if !isShownA || !isShownB || steps(is) <= steps(was) {
				continue
			}

			guestA, _ := after.Spot(a)
			guestB, _ := after.Spot(b)
			isNamed := slices.ContainsFunc(result.Plan.Warnings, func(w reasons.Finding) bool {
				return w.Code == reasons.CodeFurtherApart && strings.Contains(w.Text, a) &&
					strings.Contains(w.Text, b)
			})

			switch bothPlaced := placed[a] && placed[b]; {
			case bothPlaced && (guestA.Node == guestB.Node) == (was == "SYS"):
			case bothPlaced, !isNamed:
				t.Errorf("%s and %s: %s on the host, %s without the hook, %s with it; both placed %v, named %v", a, b, host, was, is, bothPlaced, isNamed)
			default:
				named++
			}
		}
	}

	return named
}

var busNumber = regexp.MustCompile(`^(expander bus) \d+| at .*`)

// seen returns the slots in which a guest sees disks, NICs, filesystems and controllers. Bus numbers
// change where the user's own ports come after those of devices that move.
func seen(t *testing.T, readback []byte) map[string]string {
	t.Helper()
	read, err := tree.Read(readback)
	expect.NoError(t, err)
	all := map[string]string{}
	for label, at := range read.Seen() {
		kind, rest, _ := strings.Cut(label, " ")
		if slices.Contains([]string{"disk", "interface", "filesystem"}, kind) ||
			kind == "controller" && strings.Contains(rest, " ") {
			all[label] = busNumber.ReplaceAllString(at, "$1")
		}
	}

	return all
}
