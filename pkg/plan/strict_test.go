package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

// skipping skips a test where the sequence of calls cannot be played, for example
// since libvirt refuses the domain whatever the hook does.
type skipping struct{ testing.TB }

func (s skipping) Fatalf(format string, args ...any) { s.Skipf(format, args...) }

// strictBoot plays a boot with strict policy: what the first call lets pass, every
// later one lets pass. After an error in a later call virt-handler tries again, and
// virt-launcher starts the domain of the first call without a call (KubeVirt
// virtwrap/manager.go, lookupOrCreateVirDomain). It returns the number of calls
// and whether the first was refused.
func strictBoot(
	t *testing.T, lib readback.Lib, version readback.Version, m plan.Planner, req plan.Request,
	vmi []byte,
) (calls int, refused bool) {
	m.Flags = maps.Clone(m.Flags)
	m.Flags[policy.KeyStrict] = "true"
	var errs []error
	hook := func(domain []byte) ([]byte, error) {
		result := m.Read(plan.Request{Domain: domain, VMI: req.VMI}).Plan()
		errs = append(errs, result.Err)
		return result.Domain, nil
	}

	version.Sequence(skipping{t}, req.Domain, vmi, hook, lib)

	for i, err := range errs[1:] {
		if err != nil && errs[0] == nil {
			t.Errorf("call %d is refused, the first was not: %v", i+2, err)
		}
	}

	return len(errs), errs[0] != nil
}

// bootVMIs returns a VMI for each order of calls: with placeholder interfaces and without
// (readback.PlaceholderCount). Of these a boot of a case has one; a case's own VMI has its own
// order.
func bootVMIs(own []byte) [][]byte {
	if len(own) > 0 {
		return [][]byte{own}
	}
	const with = `{"spec": {"domain": {"devices": {"interfaces": [%s]}}}}`
	return [][]byte{fmt.Appendf(nil, with, "{}"), fmt.Appendf(nil, with, "{}, {}, {}, {}")}
}

var emptyAttributes = regexp.MustCompile(` placement=""|<memory mode="" nodeset=""></memory>`)

// strictKind is a kind of boot: with which layout, "" for a case's own, and of which KubeVirt.
type strictKind struct {
	layout  policy.Layout
	version readback.Version
}

// strictBoots returns the kinds with a case's own layout, and those with another.
func strictBoots() [][]strictKind {
	own := []strictKind{{"", readback.Main}, {"", readback.V190}}
	var other []strictKind
	for _, layout := range layouts() {
		other = append(other, strictKind{layout, readback.Main}) // it makes all calls of V190, and more
	}

	return [][]strictKind{own, other}
}

// TestStrictOverBoot plays a strict boot of every second case, with its own layout or another one.
// With WHOLE=1 it plays boots of every case and of every kind.
func TestStrictOverBoot(t *testing.T) {
	t.Parallel()
	libvirt := oracle.New(t)
	lib := func(domain []byte) ([]byte, error) {
		// What KubeVirt prints of a case that has less than KubeVirt writes.
		return libvirt.Readback(emptyAttributes.ReplaceAll(domain, nil))
	}

	severalCalls, refusals := 0, 0
	for n, c := range cases.Load(t, root) {
		if !expect.IsSampled(n+1, 2) { // TestNothingElseMoves tries some of the others
			continue
		}

		// A hook before this one has written qemu:override, and would in each call.
		if bytes.Contains(c.Request.Domain, []byte("<qemu:override")) {
			continue
		}

		vmis := bootVMIs(c.Request.VMI)
		read, _, _ := c.Planner.WholeHost()
		for _, kinds := range expect.Sampled(n/2, strictBoots()) {
			for i, kind := range expect.Sampled(n/4, kinds) {
				m := read
				m.Flags = maps.Clone(m.Flags)
				if kind.layout != "" {
					m.Flags[policy.KeyLayout] = string(kind.layout)
				}

				name := fmt.Sprintf("%s/%s/%v", c.Name, kind.layout, kind.version)
				t.Run(name, func(t *testing.T) {
					calls, refused := strictBoot(t, lib, kind.version, m, c.Request,
						vmis[(n/16+i)%len(vmis)])
					if calls > 1 {
						severalCalls++
					}

					if refused {
						refusals++
					}
				})
			}
		}
	}

	if severalCalls == 0 || refusals == 0 || refusals >= severalCalls {
		t.Errorf("%d boots with several calls, %d refused in the first: want some of both",
			severalCalls, refusals)
	}
}

// TestStrictNearBudget plays strict boots of domains that just fit the guest's bus
// numbers, slots and indexes, and of those that just do not: mirror does not with 124
// devices, numa and root with 240.
func TestStrictNearBudget(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t).Readback
	for _, devices := range []int{61, 124, 235, 240} {
		req, m := crowded(t, devices)
		for _, layout := range layouts() {
			m.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
			t.Run(fmt.Sprintf("%d/%s", devices, layout), func(t *testing.T) {
				strictBoot(t, lib, readback.Main, m, req, bootVMIs(nil)[0])
			})
		}
	}
}

// crowded returns a domain with that many devices in two cells, two per switch of the host.
func crowded(t *testing.T, devices int) (plan.Request, plan.Planner) {
	t.Helper()
	host, ids := "cpus 0 0-7\ncpus 1 8-15\n", make([]string, devices)
	for i := range devices {
		pair, node := i/2, i/2%2
		ids[i] = fmt.Sprintf("%04x:%02x:00.0", node+16, i+1)
		host += fmt.Sprintf("pci%04x:00/%04x:00:%02x.0/%04x:%02x:00.0/%04x:%02x:%02x.0/%s "+
			"node=%d group=%d driver=vfio-pci\n",
			node, node, pair/2%32, node, pair+1, node, pair+2, i%2, ids[i], node, i)
	}

	read, _, _ := plan.Planner{Sysfs: expect.Host(t, host)}.WholeHost()
	return plan.Request{Domain: matrix.Domain(matrix.GuestNUMA{{0}, {1}}, ids)}, read
}
