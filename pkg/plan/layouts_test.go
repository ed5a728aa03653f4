package plan_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/matrix"
	"hook-sidecar/test/oracle"
	"hook-sidecar/test/readback"
	"hook-sidecar/test/tree"
)

func layouts() []policy.Layout { return policy.TreeLayouts() }

func withLayout(host fs.FS, layout policy.Layout) plan.Planner {
	return plan.Planner{
		Sysfs:  host,
		Source: policy.Source{Flags: map[policy.Key]string{policy.KeyLayout: string(layout)}},
	}
}

// TestReplace takes a domain from every layout to every other: as the hook
// answered, and as the next call passes it after libvirt and KubeVirt have
// rewritten it. The trees under expander buses are then the same as if the
// layout had been the first, or they stay; test/matrix TestNeverWorse says when.
// Every rule holds. Each pair of layouts takes one of these domains, and with WHOLE=1 all.
func TestReplace(t *testing.T) {
	t.Parallel()
	lib := oracle.New(t).Readback
	t.Run("hgx", func(t *testing.T) {
		host := hosts(t)["x86-2n8g-hgx-h100.txtar"]
		replaceAll(t, host, sampleFile(t, "02-8gpu-8nic-gate-off.xml"), lib)
	})

	t.Run("vgpu", func(t *testing.T) {
		replaceAll(t, hosts(t)["x86-2n2g-t4-vgpu.txtar"], vGPUs(t), lib)
	})

	t.Run("three roots", func(t *testing.T) {
		host := hosts(t)["x86-2n4g-three-roots.txtar"]
		devices, err := matrix.Sysfs{FS: host}.Endpoints()
		expect.NoError(t, err)
		replaceAll(t, host, matrix.Domain(matrix.GuestNUMA{{0}, {1}}, devices), lib)
	})

	for _, seed := range expect.Seeds(1, 3) {
		h := matrix.NewRandomHost(1000 + seed)
		host := expect.Host(t, h.Text)
		t.Run(fmt.Sprintf("seed %d", 1000+seed), func(t *testing.T) {
			replaceAll(t, host, matrix.Domain(h.NUMA, h.Devices), lib)
		})
	}
}

// vGPUs returns a domain with the mediated devices of the T4 host.
func vGPUs(t *testing.T) []byte {
	devices, err := matrix.Sysfs{FS: hosts(t)["x86-2n2g-t4-vgpu.txtar"]}.Endpoints()
	if err != nil || len(devices) < 2 {
		t.Fatalf("mediated devices %v, %v", devices, err)
	}
	return matrix.Domain(matrix.GuestNUMA{{0}, {1}}, devices)
}

func replaceAll(t *testing.T, host fs.FS, first []byte, lib readback.Lib) {
	read, _, _ := plan.Planner{Sysfs: host}.WholeHost()
	at := func(layout policy.Layout) plan.Planner {
		m := read
		m.Source = withLayout(nil, layout).Source
		return m
	}

	type domain struct {
		name string
		text []byte
	}

	starts := []domain{{"first call", first}, {"later call", nextCall(t, lib, first)}}
	for i, from := range layouts() {
		for _, start := range expect.Sampled(i, starts) {
			placed := mutateOnce(t, at(from), start.text)
			next := []domain{{"", placed}, {", read back", nextCall(t, lib, placed)}}
			for j, to := range layouts() {
				for _, d := range expect.Sampled(i/2+j, next) {
					name := fmt.Sprintf("%s, %s to %s%s", start.name, from, to, d.name)
					t.Run(name, func(t *testing.T) { replace(t, at(to), first, d.text) })
				}
			}
		}
	}
}

// nextCall returns the domain that the next call of a boot passes after an
// answer: libvirt's readback, marshaled by KubeVirt.
func nextCall(t *testing.T, lib readback.Lib, answer []byte) []byte {
	t.Helper()
	back, err := lib(answer)
	expect.NoError(t, err)
	back, err = readback.V190.Remarshal(back)
	expect.NoError(t, err)
	return back
}

func mutateOnce(t *testing.T, m plan.Planner, domain []byte) []byte {
	t.Helper()
	result := m.Read(plan.Request{Domain: domain}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	for _, w := range result.Plan.Warnings {
		if w.Code == reasons.CodeBudget {
			t.Fatal(w.Text)
		}
	}

	return result.Domain
}

func replace(t *testing.T, m plan.Planner, first, domain []byte) {
	got := mutateOnce(t, m, domain)
	for _, violation := range tree.Violations(domain, got) {
		t.Error(violation)
	}

	if again := mutateOnce(t, m, got); !bytes.Equal(again, got) {
		t.Errorf("a second call changes the result:\n%s", changes(got, again))
	}

	now := expanderTrees(read(t, got))
	if slices.Equal(shapes(now), shapes(expanderTrees(read(t, domain)))) {
		return
	}

	want := mutateOnce(t, m, first)
	expect.Same(t, expanderTrees(read(t, want)), now,
		"differs from a fresh placement (-fresh +now)")
}

// shapes returns the trees without what KubeVirt loses between calls.
func shapes(trees []string) []string {
	var shapes []string
	for _, tree := range trees {
		shapes = append(shapes, strings.ReplaceAll(tree, " hotplug off", ""))
	}
	return shapes
}

// expanderTrees returns the tree under each expander bus, without controller
// indexes: an orphan shows up as an empty tree.
func expanderTrees(d *tree.Tree) []string {
	under := map[int][]string{}
	for id, h := range d.Hostdevs {
		if h.At != nil {
			under[h.At.Bus] = append(under[h.At.Bus], fmt.Sprintf("%s.%d", id, h.At.Function))
		}
	}

	var trees []string

	// a child's index is above its parent's
	for _, index := range slices.Backward(slices.Sorted(maps.Keys(d.Controllers))) {
		c := d.Controllers[index]
		slices.Sort(under[index])
		text := strings.TrimPrefix(c.Model, "pcie-")
		if c.Cell != tree.Unknown {
			text += fmt.Sprint(" cell ", c.Cell)
		}

		if c.Hotplug != "" {
			text += " hotplug " + c.Hotplug
		}

		text += fmt.Sprintf("(%s)", strings.Join(under[index], " "))
		if c.Model == tree.ExpanderBus {
			trees = append(trees, text)
		} else if c.At != nil {
			under[c.At.Bus] = append(under[c.At.Bus], text)
		}
	}

	slices.Sort(trees)
	return trees
}

// TestReplaceBesideReferenced checks an expander bus that an SMMU names, as on
// KubeVirt's Grace path. The bus and all under it keep every byte while the other
// devices go from layout to layout, and no other controller takes their indexes.
func TestReplaceBesideReferenced(t *testing.T) {
	host := hosts(t)["x86-2n4g-three-roots.txtar"]
	devices, err := matrix.Sysfs{FS: host}.Endpoints()
	expect.NoError(t, err)
	const (
		grace = `		<controller type="pci" index="3" model="pcie-expander-bus">
			<target busNr="200"><node>1</node></target>
		</controller>
		<controller type="pci" index="4" model="pcie-root-port">
			<address type="pci" domain="0x0000" bus="0x03" slot="0x00" function="0x0"></address>
		</controller>
`
		iommu = `		<iommu model="smmuv3">
			<driver pciBus="3"></driver>
		</iommu>
`
	)

	domain := string(matrix.Domain(matrix.GuestNUMA{{0}, {1}}, devices))
	held := regexp.MustCompile(`(?s)(<alias name="ua-hostdevice-2">)`)
	domain = held.ReplaceAllString(domain,
		`<address type="pci" domain="0x0000" bus="0x04" slot="0x00" function="0x0"></address>$1`)
	domain = strings.Replace(domain, "\t</devices>", grace+iommu+"\t</devices>", 1)
	first := []byte(domain)
	for _, from := range layouts() {
		for _, to := range layouts() {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				placed := mutateOnce(t, withLayout(host, from), first)
				replace(t, withLayout(host, to), first, placed)
				got := string(mutateOnce(t, withLayout(host, to), placed))
				if !strings.Contains(got, grace) || !strings.Contains(got, iommu) {
					t.Errorf("the expander bus of the SMMU, or its port, has changed:\n%s",
						changes(placed, []byte(got)))
				}

				if !strings.Contains(got,
					`bus="0x04" slot="0x00" function="0x0"></address><alias name="ua-hostdevice-2">`) {
					t.Error("the device under it has moved")
				}
			})
		}
	}
}
