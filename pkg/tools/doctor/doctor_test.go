package doctor_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/doctor"
	"hook-sidecar/test/expect"
)

// given is the input of a check: a host in the format of package hostfs, and
// where the check needs them a domain, a VMI and environment variables.
type given struct {
	host    string
	domain  string
	others  []string // domains of other VMs of the node
	vmi     string
	environ []string
	layout  policy.Layout        // "" for numa
	inputs  func(*doctor.Inputs) // sets the rest
}

// test has the lines that a check has to print, in order.
type test struct {
	given
	want []string
}

func (g given) read(t *testing.T) doctor.Inputs {
	t.Helper()
	sysfs := expect.Host(t, g.host)
	var in doctor.Inputs
	in.Variables, in.Problems = env.ParseVariables(g.environ)
	shown, problems := host.Read(sysfs, nil, host.All|host.Details)
	layout := cmp.Or(g.layout, policy.LayoutNUMA)
	in.Host, in.Policy.Layout = shown, layout
	in.Problems = slices.Concat(in.Problems, problems)
	var vmi []byte
	if g.vmi != "" {
		vmi = []byte(g.vmi)
		var err error
		in.VMI, err = kubevirt.ParseVMI(vmi)
		expect.NoError(t, err)
	}

	source := policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}}
	planned := func(domain string) plan.Result {
		result := plan.Planner{
			Sysfs: sysfs, Variables: in.Variables, Source: source,
		}.Read(plan.Request{Domain: []byte(domain), VMI: vmi}).Plan()

		if result.Err != nil {
			t.Fatal(result.Err)
		}

		return result
	}

	if g.domain != "" {
		in.Result, in.Name = planned(g.domain), "first"
	}

	for _, other := range g.others {
		in.Others, in.Node = append(in.Others, doctor.VMInputs{
			Name: "other", Result: planned(other),
		}), true
	}

	if g.inputs != nil {
		g.inputs(&in)
	}

	return in
}

// tests returns the tests of every check, by its name.
func tests(t *testing.T) map[string]map[string]test {
	all := map[string]map[string]test{}
	for _, group := range []map[string]map[string]test{
		hostTests(), deviceTests(), linkTests(), mdevTests(), domainTests(), numaTests(),
		startTimeTests(), variableTests(), spaceTests(), containerTests(), graceTests(t),
	} {
		for check, tests := range group {
			if all[check] == nil {
				all[check] = map[string]test{}
			}
			maps.Copy(all[check], tests)
		}
	}

	return all
}

func TestChecks(t *testing.T) {
	byName := tests(t)
	for _, check := range doctor.Checks() {
		found := map[bool]int{}
		for name, test := range byName[check.Name] {
			t.Run(check.Name+"/"+name, func(t *testing.T) {
				var got []string
				for _, r := range check.Run(test.read(t)) {
					if r.Name != check.Name {
						t.Errorf("a result of %s", r.Name)
					}
					got = append(got, strings.Replace(r.String(), " "+r.Name+":", "", 1))
					found[r.Status == doctor.Pass]++
				}

				expect.Same(t, test.want, got, "(-want +got)")
			})
		}

		if found[true] == 0 || found[false] == 0 {
			t.Errorf("%s: %d tests with a PASS and %d without; each check needs both", check.Name,
				found[true], found[false])
		}

		delete(byName, check.Name)
	}

	if len(byName) > 0 {
		t.Errorf("tests of unknown checks: %v", byName)
	}
}

// TestNothingGiven checks that checks without input are skipped, and that none
// panics.
func TestNothingGiven(t *testing.T) {
	results := doctor.NewReport(given{}.read(t)).Results
	if len(results) != 1 || results[0].Name != "sysfs" || results[0].Status != doctor.Fail {
		t.Errorf("results without input: %v; want one FAIL of sysfs", results)
	}
}

// TestResultNamesDevice checks that a result about one device has its ID.
func TestResultNamesDevice(t *testing.T) {
	in := given{
		host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia group=1", domain: domainOf(gpu),
	}.read(t)

	for _, r := range doctor.NewReport(in).Results {
		if r.Name == "driver-bound" {
			if r.Device == nil || r.Device.String() != "0000:01:00.0" {
				t.Errorf("device %v of %s", r.Device, r)
			}
			return
		}
	}

	t.Error("no result of driver-bound")
}

func TestReportCounts(t *testing.T) {
	r := doctor.NewReport(given{
		host: "pci0000:00/0000:00:01.0/0000:01:00.0 driver=nvidia",
	}.read(t))
	sum := 0
	for status, n := range r.Counts {
		have := slices.DeleteFunc(slices.Clone(r.Results), func(r doctor.Result) bool {
			return r.Status != status
		})

		if len(have) != n {
			t.Errorf("%d %s, counted as %d", len(have), status, n)
		}

		sum += n
	}

	if sum != len(r.Results) || r.Counts[doctor.Fail] == 0 {
		t.Errorf("%v of %d results; the host has no IOMMU groups, which is a FAIL", r.Counts,
			len(r.Results))
	}
}

// TestReportOrder checks that the worst results come first, where host and VM have
// results of every status.
func TestReportOrder(t *testing.T) {
	rank := map[doctor.Status]int{doctor.Fail: 0, doctor.Warn: 1, doctor.Note: 2, doctor.Pass: 3}
	noCells := given{host: aHost, domain: domainWith("", uefi, gpu, holeOff)}
	results := doctor.NewReport(noCells.read(t)).Results
	found := map[doctor.Status]bool{}
	for i, r := range results {
		found[r.Status] = true
		if i > 0 && rank[results[i-1].Status] > rank[r.Status] {
			t.Errorf("%s comes after %s", r, results[i-1])
		}
	}

	if len(found) != len(rank) {
		t.Errorf("only results of %v", found)
	}
}

// TestReportOfNode checks that a result of one VM of several names it, and that one
// of the host does not.
func TestReportOfNode(t *testing.T) {
	in := given{
		host: aHost, domain: domainOf(gpu), others: []string{domainWith("", uefi, nic)},
	}.read(t)

	var cells []string
	for _, r := range doctor.NewReport(in).Results {
		switch {
		case r.Name == "guest-numa":
			cells = append(cells, r.String())
		case r.Name == "driver-bound" &&
			(r.VM != "" || r.Found != "2 functions bound to a passthrough driver"):
			t.Errorf("%q of VM %q; want one result for both VMs", r, r.VM)
		}
	}

	want := []string{
		"FAIL guest-numa: other: the guest has no NUMA cells, so layout numa cannot place a " +
			"device (" + reasons.NoGuestNUMA.Remedy() + ")",
		"PASS guest-numa: first: 2 guest NUMA cells",
	}

	expect.Same(t, want, cells, "(-want +got)")
}

// TestNames checks that names are unique and in kebab case: scripts rely on them.
func TestNames(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, check := range doctor.Checks() {
		if !kebab.MatchString(check.Name) || seen[check.Name] {
			t.Errorf("name %q", check.Name)
		}
		seen[check.Name] = true
	}
}

// Hostdevs for domainOf.
const (
	gpu = `<hostdev mode='subsystem' type='pci' managed='no'><source>` +
		`<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>` +
		`<alias name='ua-gpu-one'/></hostdev>`
	audio = `<hostdev mode='subsystem' type='pci' managed='no'><source>` +
		`<address domain='0x0000' bus='0x01' slot='0x00' function='0x1'/></source>` +
		`<alias name='ua-hostdevice-audio'/></hostdev>`
	nic = `<hostdev mode='subsystem' type='pci' managed='no'><source>` +
		`<address domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></source>` +
		`<alias name='ua-hostdevice-nic'/></hostdev>`
	vgpu = `<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source>` +
		`<address uuid='4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01'/></source>` +
		`<alias name='ua-gpu-one'/></hostdev>`
)

// Other parts of a domain.
const (
	twoCells = `<cpu mode='host-passthrough'><numa>` +
		`<cell id='0' cpus='0-1' memory='1' unit='GiB'/>` +
		`<cell id='1' cpus='2-3' memory='1' unit='GiB'/></numa></cpu>`
	memnodes = `<numatune><memnode cellid='0' mode='strict' nodeset='0'/>` +
		`<memnode cellid='1' mode='strict' nodeset='1'/></numatune>`
	uefi = `<loader readonly='yes' type='pflash'>/ovmf.fd</loader>`
)

// domainOf returns a domain like KubeVirt's with two NUMA cells on two nodes,
// UEFI and the given hostdevs.
func domainOf(hostdevs ...string) string { return domainWith(twoCells+memnodes, uefi, hostdevs...) }

// noBalloon keeps libvirt from adding a memory balloon, whose small BAR takes room, too.
const noBalloon = "<memballoon model='none'/>"

// domainWith returns a domain with the given parts of its body and of its os
// element, and hostdevs.
func domainWith(body, os string, hostdevs ...string) string {
	return fmt.Sprintf(`<domain type='kvm'><name>vm</name><memory unit='GiB'>2</memory><os>`+
		`<type arch='x86_64' machine='q35'>hvm</type>%s</os>%s<devices>%s</devices></domain>`,
		os, body, strings.Join(hostdevs, "")+noBalloon)
}

// vmi returns a VMI with the given parts of its spec.domain and annotations.
func vmi(domain, annotations string) string {
	return fmt.Sprintf(`{"metadata":{"name":"vm","annotations":{%s}},"spec":{"domain":{%s}}}`,
		annotations, domain)
}
