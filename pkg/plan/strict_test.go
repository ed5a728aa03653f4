package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
)

// unplayable is a test that remembers why a sequence of calls cannot be played.
type unplayable struct {
	testing.TB
	why string // "" where it can
}

func (u *unplayable) Fatalf(format string, args ...any) { u.why = fmt.Sprintf(format, args...) }

// strictBoots counts boots with strict policy.
type strictBoots struct{ all, severalCalls, refused, skipped int }

// play plays a boot with strict policy: what the first call lets pass, every later one lets pass. After
// an error in a later call virt-handler tries again, and virt-launcher starts the domain of the
// first call without a call (KubeVirt virtwrap/manager.go, lookupOrCreateVirDomain). A boot is
// skipped if it cannot be played without the hook either, since libvirt refuses the domain or
// KubeVirt writes none such.
func (s *strictBoots) play(
	t *testing.T, lib readback.Lib, version readback.Version, m plan.Planner, req plan.Request,
	vmi []byte,
) {
	m.Flags = maps.Clone(m.Flags)
	m.Flags[policy.KeyStrict] = "true"
	var errs []error
	commandLine := qemuCommandLine.Find(req.Domain)
	hook := func(domain []byte) ([]byte, error) {
		domain = withCommandLine(domain, commandLine)
		result := m.Read(plan.Request{Domain: domain, VMI: req.VMI}).Plan()
		errs = append(errs, result.Err)
		return result.Domain, nil
	}

	s.all++
	with, without := &unplayable{TB: t}, &unplayable{TB: t}
	version.Sequence(with, req.Domain, vmi, hook, lib)
	isRefused := len(errs) > 0 && errs[0] != nil
	if with.why != "" && !isRefused { // a refused VM does not start
		identity := func(domain []byte) ([]byte, error) { return domain, nil }
		version.Sequence(without, req.Domain, vmi, identity, lib)
		if without.why == "" {
			t.Fatalf("only with the hook: %s", with.why)
		}

		s.skipped++
		t.Skip(without.why)
	}

	for i, err := range errs[1:] {
		if err != nil && !isRefused {
			t.Errorf("call %d is refused, the first was not: %v", i+2, err)
		}
	}

	if len(errs) > 1 {
		s.severalCalls++
	}

	if isRefused {
		s.refused++
	}
}

var qemuCommandLine = regexp.MustCompile(`(?s)<qemu:commandline.*</qemu:commandline>`)

// withCommandLine returns a domain with the arguments that a hook before this one has written, and
// would in each call: KubeVirt's types lose them between the calls.
func withCommandLine(domain, commandLine []byte) []byte {
	if len(commandLine) == 0 || qemuCommandLine.Match(domain) {
		return domain
	}

	const namespace = ` xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"`
	if !bytes.Contains(domain, []byte("xmlns:qemu=")) {
		domain = bytes.Replace(domain, []byte("<domain"), []byte("<domain"+namespace), 1)
	}

	end := []byte("</domain>")
	return bytes.Replace(domain, end, slices.Concat(commandLine, end), 1)
}

// check fails if the boots show little.
func (s *strictBoots) check(t *testing.T) {
	t.Helper()
	t.Logf("%+v", *s)
	if s.severalCalls == 0 || s.refused == 0 || s.refused >= s.all || s.skipped > s.all/20 {
		t.Error("want boots with several calls, some that are refused in the first and more that are " +
			"not, and no more than one of 20 that cannot be played")
	}
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

// strictKinds returns the kinds with a case's own layout, and those with another.
func strictKinds() []strictKind {
	kinds := []strictKind{{"", readback.Main}, {"", readback.V190}}
	for _, layout := range layouts() {
		kinds = append(kinds, strictKind{layout, readback.Main}) // it makes all calls of V190, and more
	}

	return kinds
}

// TestStrictOverBoot plays a strict boot of every fifth case, with its own layout or another one.
// With WHOLE=1 it plays boots of every case and of every kind.
func TestStrictOverBoot(t *testing.T) {
	t.Parallel()
	libvirt := oracle.New(t)
	lib := func(domain []byte) ([]byte, error) {
		// What KubeVirt prints of a case that has less than KubeVirt writes.
		return libvirt.Readback(emptyAttributes.ReplaceAll(domain, nil))
	}

	var boots strictBoots
	for n, c := range cases.Load(t, root) {
		if !expect.IsSampled(n+1, 5) { // TestNothingElseMoves tries some of the others
			continue
		}

		// A hook before this one has written qemu:override, and would in each call.
		if bytes.Contains(c.Request.Domain, []byte("<qemu:override")) {
			continue
		}

		vmis := bootVMIs(c.Request.VMI)
		read, _, _ := c.Planner.WholeHost()
		for i, kind := range expect.Sampled(n/5, strictKinds()) {
			m := read
			m.Flags = maps.Clone(m.Flags)
			if kind.layout != "" {
				m.Flags[policy.KeyLayout] = string(kind.layout)
			}

			name := fmt.Sprintf("%s/%s/%v", c.Name, kind.layout, kind.version)
			t.Run(name, func(t *testing.T) {
				boots.play(t, lib, kind.version, m, c.Request, vmis[(n/30+i)%len(vmis)])
			})
		}
	}

	boots.check(t)
}

// TestStrictNearBudget plays strict boots of domains that just fit the guest's bus
// numbers, slots and indexes, and of those that just do not: mirror does not with 124
// devices, numa and root with 240.
func TestStrictNearBudget(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t).Readback
	var boots strictBoots
	for _, devices := range []int{61, 124, 235, 240} {
		req, m := crowded(t, devices)
		for _, layout := range layouts() {
			m.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
			t.Run(fmt.Sprintf("%d/%s", devices, layout), func(t *testing.T) {
				boots.play(t, lib, readback.Main, m, req, bootVMIs(nil)[0])
			})
		}
	}

	boots.check(t)
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
