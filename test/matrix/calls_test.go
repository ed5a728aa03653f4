package matrix_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

// TestCalls: all calls of a boot give one answer, beside expander buses, switches, bridges and ports
// of the user's, and with any number of hotplug ports. Every device has one place and one outcome,
// strict refuses all calls or none, and a call with what libvirt reads back of the last answer
// changes nothing. Half of the domains refer to a root port or an expander bus elsewhere, or to a
// controller that is still to come. The domains are those of TestShapes and of TestBesideStaying.
// SHAPES is how many there are, CALLS_SEED the seed of the first, by default a random one.
func TestCalls(t *testing.T) {
	libvirt := oracle.New(t)
	count := fromEnviron(t, "SHAPES", expect.Count(20, 60))
	seed := uint64(fromEnviron(t, "CALLS_SEED", rand.IntN(1_000_000)))
	t.Logf("CALLS_SEED=%d", seed)
	played, placed := 0, 0
	for end := seed + uint64(count); seed < end; seed++ {
		m := newCalled(t, seed, libvirt.Readback)
		back, err := libvirt.Readback(m.domain)
		if err != nil || isForeign.Match(m.domain) || !isMade(t, back) {
			continue // it does not start with the hook or without, or KubeVirt writes none such
		}

		played++
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("%v\n%s", m.hook.Flags, m.domain)
				}
			}()
			if first := m.play(t, libvirt.Readback); len(first.Plan.Changes.Place) > 0 {
				placed++
			}
		})
	}

	t.Logf("%d boots, in %d of them a device is placed", played, placed)
	if played < count/4 || placed < played/4 {
		t.Error("that shows little")
	}
}

// newCalled returns a random domain of either kind, with a number of hotplug ports.
func newCalled(t *testing.T, seed uint64, lib readback.Lib) (m mixed) {
	t.Helper()
	if seed%2 == 0 {
		m = newShape(t, seed/2)
	} else {
		m = newMixed(t, seed/2, lib)
	}

	switch m.IntN(4) {
	case 0:
		m.name(namedExpander)
	case 1:
		m.name(namedPort)
	}

	ports := []string{"auto", "auto", "auto", "0", "20", "255"}
	m.hook.Flags = maps.Clone(m.hook.Flags)
	m.hook.Flags[policy.KeyHotplugPorts] = ports[m.IntN(len(ports))]
	return m
}

// isForeign matches what KubeVirt does not write: a PCI controller without an index, to which it would
// give an empty one (virtwrap/api/schema.go, Controller), and a SCSI disk without a controller, whose
// model and so whose port QEMU's build decides.
var isForeign = regexp.MustCompile(`<controller type='pci' model=|bus='scsi'`)

// isMade reports whether QEMU makes all controllers of a domain that libvirt has completed. It makes
// them by index, and finds no bus of a later one ("Bus 'pci.5' not found").
func isMade(t *testing.T, completed []byte) bool {
	t.Helper()
	d, err := domain.Parse(completed)
	expect.NoError(t, err)
	return !slices.ContainsFunc(d.Controllers, func(c domain.Controller) bool {
		return c.Address != nil && c.Address.Bus >= c.Index
	})
}

// version matches the machine that libvirt writes; KubeVirt has plain q35 in all calls.
var version = regexp.MustCompile(`machine=(['"])pc-q35[^'"]*['"]`)

// play plays the calls of a boot: with the domain, with what libvirt reads back of the first answer,
// and with that of the second and root ports for hotplug; then one with what libvirt reads back of
// the last answer. It returns the first result.
func (m mixed) play(t *testing.T, lib readback.Lib) (first plan.Result) {
	t.Helper()
	domain := m.domain
	for call := range 4 {
		result := m.hook.Read(plan.Request{Domain: domain, VMI: m.vmi}).Plan()
		expect.NoError(t, result.Err)
		if call == 0 {
			first = result
		} else {
			expect.Same(t, answerOf(first.Plan, first.Plan), answerOf(result.Plan, first.Plan),
				"call %d gives another answer (-first +now)", call+1)
		}

		if t.Failed() {
			t.Fatalf("%s\nfirst %s", describe(result), describe(first))
		}

		if isFirst := m.isRefused(m.domain); isFirst != m.isRefused(domain) {
			t.Errorf("strict refuses the first call: %v, not so call %d", isFirst, call+1)
		}

		if call == 3 && !bytes.Equal(result.Domain, domain) {
			t.Errorf("a call after the last changes %+v", result.Plan.Changes)
		}

		back, err := lib(result.Domain)
		expect.NoError(t, err)
		domain = version.ReplaceAll(back, []byte("machine=${1}q35${1}"))
		if call == 1 {
			domain, err = readback.AppendRootPorts(domain, 6)
			expect.NoError(t, err)
		}
	}

	return first
}

// isRefused reports whether strict refuses a call.
func (m mixed) isRefused(domain []byte) bool {
	m.hook.Flags = maps.Clone(m.hook.Flags)
	m.hook.Flags[policy.KeyStrict] = "true"
	return m.hook.Read(plan.Request{Domain: domain, VMI: m.vmi}).Plan().IsRefused()
}

// answerOf returns the outcome of each device, and its place if the first call knows it: that call may
// leave a device to libvirt, which plugs it in where it should be.
func answerOf(p, first *placement.Plan) map[string]string {
	all := map[string]string{}
	for i, d := range p.Devices {
		if first.Devices[i].Reason == reasons.Conventional {
			continue // the bridge that libvirt adds for it may be under an expander bus
		}

		is := string(d.Outcome)
		if d.Outcome == placement.Placed || d.Reason == reasons.AlreadyAligned {
			is = "in its place"
			if first.Devices[i].Address != nil {
				is = fmt.Sprint("at ", d.Address, " under ", d.GuestPath)
			}
		}

		all[d.ID.String()] = is
	}

	return all
}

// name has the domain name one of the controllers that an expression matches, as an override of a
// property does; now and then one beyond those that it has.
func (m *mixed) name(controllers *regexp.Regexp) {
	all := controllers.FindAllSubmatch(m.domain, -1)
	if len(all) == 0 {
		return
	}

	index, err := strconv.Atoi(string(all[m.IntN(len(all))][1]))
	if err != nil {
		return // the expression has digits alone
	}

	if m.IntN(3) == 0 {
		index = min(index+1+m.IntN(20), 255)
	}

	m.replace("</domain>", fmt.Sprintf(
		`<override xmlns="http://libvirt.org/schemas/domain/qemu/1.0"><device alias="pci.%d">`+
			`<frontend><property name="x-name" type="remove"/></frontend></device></override></domain>`,
		index))
}

var (
	namedExpander = regexp.MustCompile(
		`<controller type=['"]pci['"] index=['"](\d+)['"] model=['"]pcie-expander-bus`)
	namedPort = regexp.MustCompile(
		`<controller type=['"]pci['"] index=['"](\d+)['"] model=['"]pcie-root-port`)
)
