package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/tree"
)

// TestPCIBusFollows checks in every case with an SMMUv3 per expander bus, in every layout and over
// two calls, that each pciBus names the expander bus that it named before: the bus with that index
// has the number, the cell and the devices that it had.
func TestPCIBusFollows(t *testing.T) {
	named := 0
	for _, c := range cases.Load(t, root) {
		want := perSMMU(read(t, c.Request.Domain))
		named += len(want)
		if len(want) == 0 {
			continue
		}

		for _, layout := range append(layouts(), policy.LayoutAuto, policy.LayoutKeep) {
			c.Planner.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
			first := c.Planner.Read(c.Request).Plan().Domain
			expect.Same(t, want, perSMMU(read(t, first)), "%s, layout %s (-before +after)", c.Name,
				layout)
			again := c.Request
			again.Domain = first
			expect.Same(t, want, perSMMU(read(t, c.Planner.Read(again).Plan().Domain)),
				"%s, layout %s, second call (-before +after)", c.Name, layout)
		}
	}

	if named < 5 {
		t.Errorf("%d expander buses with an SMMUv3 in the cases", named)
	}
}

// smmuBus is an expander bus that an SMMUv3 names.
type smmuBus struct {
	Controller tree.Controller
	Devices    []string // under it, by ID, with their addresses
}

// perSMMU returns the expander buses that SMMUv3s name, by pciBus.
func perSMMU(d *tree.Tree) map[string]smmuBus {
	buses := map[string]smmuBus{}
	for _, device := range d.Devices {
		c, exists := d.Controllers[tree.Number(device.Find("driver").Attr("pciBus"))]
		if device.Name != "iommu" || !exists || c.Model != tree.ExpanderBus {
			continue
		}

		bus := smmuBus{Controller: c}
		bus.Controller.At = nil // libvirt gives it one where it has none

		for _, under := range d.Devices {
			at := under.At
			for at != nil && at.Bus != c.Index && at.Bus != 0 {
				at = d.Controllers[at.Bus].At
			}

			if at != nil && at.Bus == c.Index && under.ID != "" {
				bus.Devices = append(bus.Devices, fmt.Sprint(under.ID, " at ", under.At))
			}
		}

		buses[fmt.Sprint(c.Index)] = bus
	}

	return buses
}

// TestSSIDSize: KubeVirt's ssidSize gets the name that libvirt knows in every layout, also in
// keep, and keeps its value; in a dry run the domain is as it came.
func TestSSIDSize(t *testing.T) {
	grace := cases.Named(t, root, "grace")
	for _, layout := range []policy.Layout{
		policy.LayoutAuto, policy.LayoutNUMA, policy.LayoutRoot, policy.LayoutSwitch,
		policy.LayoutMirror, policy.LayoutKeep,
	} {
		grace.Planner.Flags = map[policy.Key]string{policy.KeyLayout: string(layout)}
		got := string(grace.Planner.Read(grace.Request).Plan().Domain)
		if !strings.Contains(got, ` ril="off" ssidsize="20" oas="48"`) ||
			strings.Contains(got, "ssidSize") {
			t.Errorf("layout %s: no ssidsize in\n%s", layout, got)
		}
	}

	grace.Planner.Flags = map[policy.Key]string{policy.KeyDryRun: "true"}
	if got := grace.Planner.Read(grace.Request).Plan().Domain; string(
		got) != string(grace.Request.Domain) {
		t.Errorf("a dry run changed the domain:\n%s", got)
	}

	grace.Planner.Flags = nil
	both := strings.Replace(string(grace.Request.Domain), `ssidSize="20"`,
		`ssidSize="20" ssidsize="8"`, 1)
	grace.Request.Domain = []byte(both)
	if got := string(grace.Planner.Read(grace.Request).Plan().Domain); !strings.Contains(got,
		`ssidSize="20" ssidsize="8"`) {
		t.Errorf("of two sizes the user's changed:\n%s", got)
	}
}
