package plan_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/hostfs"
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
func strictBoot(t *testing.T, version readback.Version, m plan.Planner, req plan.Request, vmi []byte) (calls int, refused bool) {
	m.Flags = maps.Clone(m.Flags)
	m.Flags[policy.KeyStrict] = "true"
	var errs []error
	hook := func(domain []byte) ([]byte, error) {
		result := m.Mutate(plan.Request{Domain: domain, VMI: req.VMI})
		errs = append(errs, result.Err)
		return result.Domain, nil
	}
	version.Sequence(skipping{t}, req.Domain, vmi, hook, readback.Libvirt)
	for i, err := range errs[1:] {
		if err != nil && errs[0] == nil {
			t.Errorf("call %d is refused, the first was not: %v", i+2, err)
		}
	}
	return len(errs), errs[0] != nil
}

// bootVMIs are a VMI for each order of calls: with placeholder interfaces and without
// (readback.PlaceholderCount). A case's own VMI has its own order.
func bootVMIs(own []byte) [][]byte {
	if len(own) > 0 {
		return [][]byte{own}
	}
	const with = `{"spec": {"domain": {"devices": {"interfaces": [%s]}}}}`
	return [][]byte{fmt.Appendf(nil, with, "{}"), fmt.Appendf(nil, with, "{}, {}, {}, {}")}
}

// TestStrictOverBoot plays strict boots of every case with every layout.
func TestStrictOverBoot(t *testing.T) {
	t.Parallel()
	severalCalls, refusals := 0, 0
	for _, c := range cases.Load(t, root) {
		// A hook before this one has written qemu:override, and would in each call.
		if bytes.Contains(c.Request.Domain, []byte("<qemu:override")) {
			continue
		}
		for _, layout := range []policy.Layout{"", policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
			m := c.Mutator
			m.Flags = maps.Clone(m.Flags)
			if layout != "" {
				m.Flags[policy.KeyLayout] = string(layout)
			}
			for _, vmi := range bootVMIs(c.Request.VMI) {
				for _, version := range []readback.Version{readback.Main, readback.V190} {
					if version == readback.V190 && layout != "" { // Main makes all its calls, and more
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%v", c.Name, layout, version), func(t *testing.T) {
						calls, refused := strictBoot(t, version, m, c.Request, vmi)
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
	}
	if severalCalls == 0 || refusals == 0 || refusals >= severalCalls {
		t.Errorf("%d boots with several calls, %d refused in the first: want some of both", severalCalls, refusals)
	}
}

// TestStrictNearBudget plays strict boots of domains that just fit the guest's bus
// numbers, slots and indexes, and of those that just do not.
func TestStrictNearBudget(t *testing.T) {
	t.Parallel()
	for _, devices := range []int{61, 124, 220, 230, 235, 240, 245} {
		req, m := crowded(t, devices)
		for _, layout := range []policy.Layout{policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutMirror} {
			m.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
			t.Run(fmt.Sprintf("%d/%s", devices, layout), func(t *testing.T) {
				strictBoot(t, readback.Main, m, req, bootVMIs(nil)[0])
			})
		}
	}
}

// crowded is a domain with that many devices in two cells, two per switch of the host.
func crowded(t *testing.T, devices int) (plan.Request, plan.Planner) {
	t.Helper()
	var host, hostdevs strings.Builder
	host.WriteString("cpus 0 0-7\ncpus 1 8-15\n")
	for i := range devices {
		pair, node := i/2, i/2%2
		fmt.Fprintf(&host, "pci%04x:00/%04x:00:%02x.0/%04x:%02x:00.0/%04x:%02x:%02x.0/%04x:%02x:00.0 node=%d group=%d driver=vfio-pci\n",
			node, node, pair/2%32, node, pair+1, node, pair+2, i%2, node+16, i+1, node, i)
		fmt.Fprintf(&hostdevs, `<hostdev type="pci" managed="no"><source><address domain="0x%04x" bus="0x%02x" slot="0x00" function="0x0"></address></source><alias name="ua-gpu-%d"></alias></hostdev>`, node+16, i+1, i)
	}
	sysfs, err := hostfs.Parse(host.String())
	if err != nil {
		t.Fatal(err)
	}
	domain := fmt.Sprintf(`<domain type="kvm"><name>crowded</name><memory unit="b">4294967296</memory>
<os><type arch="x86_64" machine="q35">hvm</type></os><devices>%s<interface type="ethernet"><model type="virtio"></model></interface></devices>
<cpu><numa><cell id="0" cpus="0-7" memory="1" unit="GiB"></cell><cell id="1" cpus="8-15" memory="1" unit="GiB"></cell></numa></cpu>
<numatune><memnode cellid="0" mode="strict" nodeset="0"></memnode><memnode cellid="1" mode="strict" nodeset="1"></memnode></numatune></domain>`, &hostdevs)
	return plan.Request{Domain: []byte(domain)}, plan.Planner{Sysfs: sysfs}
}
