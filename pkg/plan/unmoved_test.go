package plan_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
	"hook-sidecar/test/tree"
)

// TestNothingElseMoves defines every eleventh domain in libvirt as it is and as the hook returns it
// with one layout, and with WHOLE=1 each domain with every layout: libvirt accepts it, has every
// device where it is planned, and no disk, NIC, filesystem or controller other than for PCI
// elsewhere.
func TestNothingElseMoves(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t)
	for n, d := range definable(t) {
		if !expect.IsSampled(n, 11) {
			continue
		}

		back, err := lib.Readback(d.domain)
		if err != nil {
			continue // libvirt refuses it with the hook or without
		}

		planner, _, _ := d.host.WholeHost()
		without := read(t, back)
		want, short := unmoved(without), without.BusShortages()
		for _, layout := range expect.Sampled(n/11, layouts()) {
			t.Run(d.name+"/"+string(layout), func(t *testing.T) {
				m := planner
				m.Source = laidOut(m.Source, layout)
				planned := m.Read(plan.Request{Domain: d.domain, VMI: d.vmi}).Plan()
				got := lib.CheckChanged(t, planned.Domain, d.domain)
				if got == nil {
					return
				}

				before, after := want, unmoved(got.Tree)
				if reasons.CodeBusNumber.IsIn(planned.Plan.Warnings) { // it says which devices
					before, after = slotsOf(before), slotsOf(after)
				}

				expect.Same(t, before, after,
					"disks, NICs or controllers move (-without the hook +with it)")

				// libvirt adds no more bridges than were counted.
				for _, shortage := range got.Tree.BusShortages() {
					if !slices.Contains(short, shortage) {
						t.Error(shortage)
					}
				}
			})
		}
	}
}

var expanderAddress = regexp.MustCompile(
	`(model="pcie-expander-bus">(?s:.*?)</target>)\s*<address [^>]*></address>`)

var lastPort = regexp.MustCompile(
	`(?s)(.*)<controller type="pci" index="\d+" model="pcie-root-port">.*?</controller>`)

// TestNothingElseMovesFromUnaddressed starts from trees whose expander buses have no
// address, as KubeVirt's with PCINUMAAwareTopology: those of each layout on random
// hosts, which another layout replaces, and with WHOLE=1 every layout, by more expander buses or by
// fewer. In every other tree the last root port is missing, and libvirt makes it one of the root
// bus.
func TestNothingElseMovesFromUnaddressed(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t).Readback
	for _, seed := range expect.Seeds(1, 8) {
		h := matrix.NewRandomHost(2000 + seed)
		host := expect.Host(t, h.Text)
		for i, from := range layouts() {
			placed := withLayout(host, from).Read(plan.Request{
				Domain: matrix.Domain(h.NUMA, h.Devices),
			}).Plan()

			domain := expanderAddress.ReplaceAll(placed.Domain, []byte("$1"))
			if seed%2 == 0 {
				domain = lastPort.ReplaceAll(domain, []byte("$1"))
			}

			for _, to := range expect.Sampled(i+int(seed), layouts()) {
				t.Run(fmt.Sprintf("seed %d/%s to %s", 2000+seed, from, to), func(t *testing.T) {
					without, with := domain, withLayout(host, to).Read(plan.Request{
						Domain: domain,
					}).Plan().Domain
					// As it is, and in the last call with KubeVirt's root ports.
					for range 2 {
						expect.Same(t, readBack(t, lib, without), readBack(t, lib, with),
							"disks, NICs or controllers move (-without the hook +with it)")
						without = lastCall(t, lib, without)
						with = withLayout(host, to).Read(plan.Request{
							Domain: lastCall(t, lib, with),
						}).Plan().Domain
					}
				})
			}
		}
	}
}

// readBack returns what unmoved returns for a domain that libvirt reads back.
func readBack(t *testing.T, lib readback.Lib, domain []byte) map[string]string {
	t.Helper()
	back, err := lib(domain)
	expect.NoError(t, err)
	return unmoved(read(t, back))
}

// lastCall returns the domain of a later call with root ports for hotplug.
func lastCall(t *testing.T, lib readback.Lib, domain []byte) []byte {
	t.Helper()
	next, err := readback.AppendRootPorts(nextCall(t, lib, domain), 6)
	expect.NoError(t, err)
	return next
}

// isKubeVirts reports whether libvirt accepts a domain as KubeVirt would write it:
// that of a case may have less than KubeVirt writes.
func isKubeVirts(lib readback.Lib, version readback.Version, domain []byte) bool {
	written, err := version.Remarshal(domain)
	if err != nil {
		return false
	}

	_, err = lib(written)
	return err == nil
}

// definition is a domain, with its VMI and the host that has its devices.
type definition struct {
	name        string
	domain, vmi []byte
	host        plan.Planner
	first       bool // it is that of a boot's first call, with a VMI
}

// definable returns all cases and samples.
func definable(t *testing.T) []definition {
	t.Helper()
	var all []definition
	for _, c := range cases.Load(t, root) {
		if c.NoLibvirt == "" {
			all = append(all, definition{
				c.Name, c.Request.Domain, c.Request.VMI, c.Planner, len(c.Request.VMI) > 0,
			})
		}
	}

	hostOf, hosts := boots(), hosts(t)
	for _, sample := range slices.Sorted(maps.Keys(hostOf)) {
		host := hostOf[sample]
		files, err := filepath.Glob(filepath.Join(root, "testdata", "samples", sample+"*.xml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sample %s: %v", sample, err)
		}

		planner := withLayout(hosts[host+".txtar"], policy.LayoutNUMA)
		for _, file := range files {
			name := filepath.Base(file)
			all = append(all, definition{
				name, sampleFile(t, name), sampleFile(t, sample+".vmi.json"),
				planner, name == sample+".xml",
			})
		}
	}

	return all
}

// laidOut returns a source with another layout, whatever the VMI has, and without strict.
func laidOut(s policy.Source, layout policy.Layout) policy.Source {
	s.Flags, s.AnnotationsFirst = maps.Clone(s.Flags), false
	s.Flags[policy.KeyLayout], s.Flags[policy.KeyStrict] = string(layout), "false"
	return s
}

// ownExpander matches the line of a device under an expander bus of the user's own. Its bus
// numbers may change, where devices beside it leave or the expander bus has no busNr.
var ownExpander = regexp.MustCompile(`^(expander bus) \d+( .*) at .*`)

// slotsOf returns places without the addresses in the guest's kernel.
func slotsOf(seen map[string]string) map[string]string {
	all := map[string]string{}
	for label, at := range seen {
		all[label], _, _ = strings.Cut(at, " at ")
	}
	return all
}

// unmoved returns where a guest sees the devices that the hook must not move.
func unmoved(readback *tree.Tree) map[string]string {
	seen := readback.Seen()
	maps.DeleteFunc(seen, func(label, _ string) bool {
		kind, rest, _ := strings.Cut(label, " ")
		return !slices.Contains([]string{"disk", "interface", "filesystem"}, kind) &&
			(kind != "controller" || !strings.Contains(rest, " "))
	})

	for label, at := range seen {
		seen[label] = ownExpander.ReplaceAllString(at, "$1$2")
	}

	return seen
}
