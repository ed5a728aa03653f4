package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/topology"
)

// GuestComparison compares each device in the guest with the plan.
type GuestComparison struct {
	SchemaVersion int           `json:"schemaVersion"` // 1
	Source        string        `json:"source"`        // lspci or snapshot
	Devices       []GuestDevice `json:"devices"`       // by id
	Notes         []string      `json:"notes"`         // aspects that were compared for no device

	subject Subject
}

// GuestOutcome is the outcome of comparing a device.
type GuestOutcome string

// The outcomes.
const (
	AsPlanned   GuestOutcome = "as-planned"
	Differs     GuestOutcome = "differs"
	NotCompared GuestOutcome = "not-compared" // its address is not known until libvirt gives addresses
)

// GuestDevice is a device as the guest shows it.
type GuestDevice struct {
	ID          topology.DeviceID `json:"id"`          // on the host
	Alias       *string           `json:"alias"`       // in the domain
	Predicted   *topology.Address `json:"predicted"`   // planned address in the guest's kernel
	Outcome     GuestOutcome      `json:"outcome"`     // as-planned, differs, or not-compared until libvirt gives an address
	Differences []string          `json:"differences"` // the differences, in sentences
}

// CompareGuest compares a plan with the guest: address, ids, NUMA node and, if
// the guest shows it, the path through the PCI Express tree.
func CompareGuest(r Report, guest host.Guest) GuestComparison {
	c := GuestComparison{SchemaVersion: SchemaVersion, Source: guest.Source, Devices: []GuestDevice{}, Notes: []string{}, subject: r.Subject}
	for _, d := range r.Devices {
		seen := GuestDevice{ID: d.ID, Alias: d.Alias, Predicted: d.Predicted, Outcome: NotCompared, Differences: []string{}}
		if d.Predicted != nil {
			seen.Outcome = AsPlanned
			if seen.Differences = r.guestDifferences(d, guest); len(seen.Differences) > 0 {
				seen.Outcome = Differs
			}
		}
		c.Devices = append(c.Devices, seen)
	}
	if !guest.IDs {
		c.Notes = append(c.Notes, "vendor and device ids are not compared: lspci prints them with -nn only")
	}
	if !guest.Paths {
		c.Notes = append(c.Notes, "the path to a device is not compared: a snapshot shows it, lspci does not")
	}
	return c
}

// Count is how many devices have an outcome.
func (c GuestComparison) Count(outcome GuestOutcome) int {
	return count(c.Devices, func(d GuestDevice) bool { return d.Outcome == outcome })
}

// guestDifferences are the differences of a device whose address is predicted.
func (r Report) guestDifferences(d Device, guest host.Guest) []string {
	differences := []string{}
	add := func(format string, values ...any) { differences = append(differences, fmt.Sprintf(format, values...)) }
	found := guest.Device(*d.Predicted)
	if found == nil {
		add("nothing at %s%s", d.Predicted, r.elsewhere(d, guest))
		return differences
	}
	// A mediated device has ids and BARs of its own.
	if host := d.function; host != nil && d.Kind == topology.KindPCI {
		if guest.IDs && vendorDevice(found) != vendorDevice(host) {
			add("it is a %s, on the host %s%s", vendorDevice(found), vendorDevice(host), r.elsewhere(d, guest))
		}
		if hasMemory(host.BARs) && found.BARs != nil && !hasMemory(found.BARs) {
			add("none of its memory BARs has an address, so no driver can use it")
		}
	}
	var want topology.Affinity
	if d.GuestCell != nil {
		want = topology.OnNode(topology.NodeID(*d.GuestCell))
	}
	if found.Node != want {
		add("NUMA node %s, planned %s", found.Node, want)
	}
	root, bridges, known := r.pathTo(d)
	if guest.Paths && known && (found.Root != root || !slices.Equal(found.Bridges, bridges)) {
		add("its path is %s, planned %s", pathText(found.Root, found.Bridges), pathText(root, bridges))
	}
	return differences
}

// vendorDevice is the ids of a function as lspci -nn writes them.
func vendorDevice(f *topology.Device) string { return fmt.Sprintf("%04x:%04x", f.Vendor, f.Device) }

// hasMemory reports whether a BAR of memory has an address.
func hasMemory(bars []topology.BAR) bool {
	return slices.ContainsFunc(bars, func(b topology.BAR) bool { return !b.IO && !b.Unassigned })
}

// elsewhere lists functions with a device's ids at addresses that no device is planned for.
func (r Report) elsewhere(d Device, guest host.Guest) string {
	if !guest.IDs || d.function == nil || d.Kind != topology.KindPCI {
		return ""
	}
	var places []string
	for _, f := range guest.Devices {
		isPlanned := slices.ContainsFunc(r.Devices, func(d Device) bool { return topology.Same(d.Predicted, &f.Address) })
		if !isPlanned && vendorDevice(&f) == vendorDevice(d.function) {
			places = append(places, f.Address.String())
		}
	}
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf("; there is a %s at %s", vendorDevice(d.function), strings.Join(places, ", "))
}

// pathTo is the path to a device as the guest's sysfs shows it, if all its numbers are known.
func (r Report) pathTo(d Device) (root topology.PCIeRoot, bridges []topology.Address, known bool) {
	path := r.guest.Node(d.ID).Path()
	number := 0 // of the root bus, which is the first root
	for _, n := range path[:len(path)-1] {
		c := r.controller(n.ID.(topology.Index))
		switch {
		case n == r.guest.Roots[0]:
		case c != nil && c.BusNr != nil:
			number = *c.BusNr
		case c != nil && c.predicted != nil:
			bridges = append(bridges, *c.predicted)
		default:
			return "", nil, false
		}
	}
	return topology.PCIeRoot(fmt.Sprintf("pci0000:%02x", number)), bridges, true
}

func pathText(root topology.PCIeRoot, bridges []topology.Address) string {
	text := root.String()
	for _, b := range bridges {
		text += "/" + b.String()
	}
	return text
}

// WriteText writes one line per device, and its differences under it.
func (c GuestComparison) WriteText(w io.Writer, style Style) error {
	p := &printer{Style: style}
	p.subject(c.subject)
	p.line(p.Paint(bold, fmt.Sprintf("guest as planned: %d of %s", c.Count(AsPlanned), topology.Counted(len(c.Devices), "device"))))
	p.line("")
	for _, d := range c.Devices {
		colour := map[GuestOutcome]Colour{AsPlanned: Green, Differs: Red, NotCompared: Yellow}[d.Outcome]
		line := fmt.Sprintf("%-*s  %-*s  %s  %s", len(NotCompared), d.Outcome, len("0000:00:00.0"), or(d.Predicted, "address not known yet"),
			d.ID, title(d.Alias))
		p.line(p.Paint(colour, p.Fit(line, p.width())))
		for _, difference := range d.Differences {
			p.line("  " + p.wrap(difference, 2, 4))
		}
	}
	for _, note := range c.Notes {
		p.line("")
		p.wrapped(plain, "note: "+note)
	}
	return p.to(w)
}
