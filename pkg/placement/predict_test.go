package placement_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
)

// guest builds a domain whose devices have addresses, to predict those that the
// guest's kernel shows. The trees were booted with SeaBIOS and OVMF on libvirt 9
// and 11, where the guest's sysfs showed every device as the rule says: each root
// bus starts at its busNr, and each bridge gets the next number, depth first in
// the order of slot and function.
type guest struct{ domain domain.Domain }

func (g *guest) controller(c domain.Controller) int {
	g.domain.Controllers = append(g.domain.Controllers, c)
	return c.Index
}

func (g *guest) expander(index, busNr int) int {
	return g.controller(domain.Controller{
		Index:   index,
		Model:   domain.ExpanderBus,
		BusNr:   &busNr,
		Address: &domain.GuestAddress{Slot: 0x1c - index%24},
	})
}

func (g *guest) port(model domain.Model, index, bus, slot, function int) int {
	return g.controller(domain.Controller{
		Index:   index,
		Model:   model,
		Address: &domain.GuestAddress{Bus: bus, Slot: slot, Function: function},
	})
}

// device puts a device of the host at an address; its host bus number is n.
func (g *guest) device(n, bus, function int) topology.DeviceID {
	id := topology.PCIDevice(topology.Address{Bus: uint8(n)})
	g.domain.Hostdevs = append(g.domain.Hostdevs, domain.Hostdev{
		ID: id, HasMode: true, Address: &domain.GuestAddress{Bus: bus, Function: function},
	})
	return id
}

// seen returns the addresses that the guest shows, "" for an unknown one.
func (g *guest) seen(t *testing.T) map[topology.DeviceID]string {
	t.Helper()
	g.domain.Arch, g.domain.Machine = "x86_64", "q35"
	g.domain.Others = append(g.domain.Others, // libvirt adds nothing then
		domain.Device{
			Element: "controller", Type: "usb", Model: "none",
		}, domain.Device{Element: "memballoon", Model: "none"})

	keep, _, err := policy.Resolve(policy.Source{
		Flags: map[policy.Key]string{policy.KeyLayout: "keep"},
	})

	expect.NoError(t, err)
	plan, err := placement.New(placement.Input{
		Domain: &g.domain, Host: &topology.Host{}, Policy: keep,
	})

	expect.NoError(t, err)
	seen := map[topology.DeviceID]string{}
	for _, d := range plan.Devices {
		seen[d.ID] = ""
		if d.Predicted != nil {
			seen[d.ID] = d.Predicted.String()
		}
	}

	return seen
}

func check(t *testing.T, seen map[topology.DeviceID]string, id topology.DeviceID, want string) {
	t.Helper()
	if got, planned := seen[id]; !planned || got != want {
		t.Errorf("device %s is seen as %q, want %q", id, got, want)
	}
}

// TestPredictMirror has eight expanders five numbers apart, from 251 down to 216,
// each with root port, switch and two devices: exactly the numbers busNr to
// busNr + 4.
func TestPredictMirror(t *testing.T) {
	var g guest
	want := map[topology.DeviceID]string{}
	for i := range 8 {
		busNr := 251 - 5*i
		pxb := g.expander(5*i+1, busNr)
		rp := g.port(domain.RootPort, 5*i+2, pxb, 0, 0)
		up := g.port(domain.UpstreamPort, 5*i+3, rp, 0, 0)
		for j := range 2 {
			dn := g.port(domain.DownstreamPort, 5*i+4+j, up, j, 0)
			// Root port busNr+1, upstream +2, the downstream ports +3 and +4.
			want[g.device(0x10+2*i+j, dn, 0)] = topology.Address{Bus: uint8(busNr + 3 + j)}.String()
		}
	}

	seen := g.seen(t)
	for id, address := range want {
		check(t, seen, id, address)
	}
}

// TestPredictCascade has a switch under a switch: numbering is depth first, so
// all of the inner one is numbered before the outer one's next port.
func TestPredictCascade(t *testing.T) {
	var g guest
	pxb := g.expander(1, 200)
	rp := g.port(domain.RootPort, 2, pxb, 0, 0)
	up := g.port(domain.UpstreamPort, 3, rp, 0, 0)
	inner := g.port(domain.DownstreamPort, 4, up, 0, 0)
	outer := g.port(domain.DownstreamPort, 5, up, 1, 0)
	up2 := g.port(domain.UpstreamPort, 6, inner, 0, 0)
	first, second := g.port(domain.DownstreamPort, 7, up2, 0, 0), g.port(domain.DownstreamPort, 8,
		up2, 1, 0)
	a, b, c := g.device(0x11, first, 0), g.device(0x12, second, 0), g.device(0x13, outer, 0)
	seen := g.seen(t)

	// 200 = c8: rp c9, up ca, inner cb, up2 cc, its ports cd and ce, outer cf.
	check(t, seen, a, "0000:cd:00.0")
	check(t, seen, b, "0000:ce:00.0")
	check(t, seen, c, "0000:cf:00.0")
}

// TestPredictFunctionsOfASlot has forty root ports on one expander: slots 0 to
// 31, then function 1 of the slots 0 to 7. A slot's functions are numbered
// together, so the port with the 33rd index is the second bridge.
func TestPredictFunctionsOfASlot(t *testing.T) {
	var g guest
	pxb := g.expander(1, 100)
	ids := make([]topology.DeviceID, 40)
	for i := range ids {
		ids[i] = g.device(i+1, g.port(domain.RootPort, 2+i, pxb, i%32, i/32), 0)
	}

	seen := g.seen(t)
	check(t, seen, ids[0], "0000:65:00.0")  // slot 0 function 0: 101
	check(t, seen, ids[32], "0000:66:00.0") // slot 0 function 1: 102
	check(t, seen, ids[1], "0000:67:00.0")  // slot 1 function 0: 103
	check(t, seen, ids[39], "0000:74:00.0") // slot 7 function 1: 101 + 15
	check(t, seen, ids[8], "0000:75:00.0")  // slot 8, all sixteen before it: 117
	check(t, seen, ids[31], "0000:8c:00.0") // the last: 140
}

// TestPredictScrambledIndexes shows that index, chassis and XML order do not
// matter: siblings have reversed indexes, and the indexes, slots and numbers of
// the expanders are in different orders.
func TestPredictScrambledIndexes(t *testing.T) {
	var g guest
	late := g.port(domain.RootPort, 9, 2, 0, 0)
	early := g.port(domain.RootPort, 4, 2, 1, 0)
	other := g.port(domain.RootPort, 8, 1, 3, 0)
	g.expander(2, 40)
	g.expander(1, 80)
	a, b, c := g.device(0x11, late, 0), g.device(0x12, early, 0), g.device(0x13, other, 0)
	seen := g.seen(t)
	check(t, seen, a, "0000:29:00.0") // 40 + 1: slot 0 comes first, though its index is higher
	check(t, seen, b, "0000:2a:00.0")
	check(t, seen, c, "0000:51:00.0") // 80 + 1: slot 3 is the first in use
}

// TestPredictFunctions shows that functions of one slot share its bus and keep
// their numbers.
func TestPredictFunctions(t *testing.T) {
	var g guest
	rp := g.port(domain.RootPort, 2, g.expander(1, 64), 0, 0)
	a, b := g.device(0x11, rp, 0), g.device(0x12, rp, 1)
	seen := g.seen(t)
	check(t, seen, a, "0000:41:00.0")
	check(t, seen, b, "0000:41:00.1")
}

// TestPredictRootBus shows that the root bus is numbered from 0 and that expander
// buses are not among its bridges. While a device has no address the numbers of
// the root bus are unknown; those of an expander are known all the same.
func TestPredictRootBus(t *testing.T) {
	build := func() (*guest, topology.DeviceID, topology.DeviceID) {
		var g guest
		g.port(domain.RootPort, 1, 0, 1, 0)
		onRoot := g.port(domain.RootPort, 2, 0, 1, 1)
		under := g.port(domain.RootPort, 4, g.expander(3, 128), 0, 0)

		// before the ports, and still not a bridge of the root bus
		g.domain.Controllers[2].Address.Slot = 0
		g.domain.Controllers[2].Address.Function = 1
		return &g, g.device(0x11, onRoot, 0), g.device(0x12, under, 0)
	}

	g, onRoot, under := build()
	seen := g.seen(t)
	check(t, seen, onRoot, "0000:02:00.0") // the second bridge
	check(t, seen, under, "0000:81:00.0")

	g, onRoot, under = build()
	g.domain.Others = []domain.Device{{Element: "rng"}}
	seen = g.seen(t)
	check(t, seen, onRoot, "")
	check(t, seen, under, "0000:81:00.0")
}

// TestPredictWithoutBusNumber has an expander without busNr: libvirt chooses its
// number later, so the address is unknown.
func TestPredictWithoutBusNumber(t *testing.T) {
	var g guest
	rp := g.port(domain.RootPort, 2,
		g.controller(domain.Controller{
			Index: 1, Model: domain.ExpanderBus, Address: &domain.GuestAddress{Slot: 5},
		}), 0, 0)

	id := g.device(0x11, rp, 0)
	check(t, g.seen(t), id, "")
}
