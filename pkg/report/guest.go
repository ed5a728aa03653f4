package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// GuestComparison says of each device whether the guest sees it as planned.
type GuestComparison struct {
	SchemaVersion int           `json:"schemaVersion"`
	Source        string        `json:"source"` // "lspci" or "snapshot"
	Devices       []GuestDevice `json:"devices"`
	Notes         []string      `json:"notes"` // what could not be compared for any device
}

// The outcomes of comparing a device.
const (
	AsPlanned   = "as-planned"
	Differs     = "differs"
	NotCompared = "not-compared" // where it stands is not known before libvirt gives addresses
)

// GuestDevice is what the guest shows of a device.
type GuestDevice struct {
	ID          string   `json:"id"`
	Alias       *string  `json:"alias"`
	Predicted   *string  `json:"predicted"`
	Outcome     string   `json:"outcome"`
	Differences []string `json:"differences"`
}

// CompareGuest compares what was planned with what the guest sees: the address,
// the ids, the NUMA node and, where the guest shows it, the way through the
// PCI Express tree.
func CompareGuest(r Report, guest env.Guest) GuestComparison {
	c := GuestComparison{SchemaVersion: SchemaVersion, Source: guest.Source, Devices: []GuestDevice{}, Notes: []string{}}
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
		c.Notes = append(c.Notes, "vendor and device are not compared: lspci tells their numbers with -nn")
	}
	if !guest.Paths {
		c.Notes = append(c.Notes, "the way to a device is not compared: lspci does not tell it, a snapshot does")
	}
	return c
}

// Count is how many devices have an outcome.
func (c GuestComparison) Count(outcome string) int {
	n := 0
	for _, d := range c.Devices {
		if d.Outcome == outcome {
			n++
		}
	}
	return n
}

func (r Report) guestDifferences(d Device, guest env.Guest) []string {
	address, err := topology.ParseAddress(*d.Predicted)
	if err != nil {
		return []string{err.Error()}
	}
	differences := []string{}
	say := func(format string, values ...any) { differences = append(differences, fmt.Sprintf(format, values...)) }
	found := guest.Device(address)
	if found == nil {
		say("nothing at %s%s", address, r.elsewhere(d, guest))
		return differences
	}
	// A mediated device shows ids of its own.
	if host := d.function; guest.IDs && host != nil && d.Kind == string(topology.KindPCI) &&
		(found.Vendor != host.Vendor || found.Device != host.Device) {
		say("it is a %04x:%04x, on the host %04x:%04x%s", found.Vendor, found.Device, host.Vendor, host.Device, r.elsewhere(d, guest))
	}
	if host := d.function; host != nil && d.Kind == string(topology.KindPCI) && hasMemory(host.BARs) && found.BARs != nil && !hasMemory(found.BARs) {
		say("none of its memory BARs has an address, so no driver can use it")
	}
	if want, got := orNone(d.GuestCell), found.Node.String(); want != got {
		say("NUMA node %s, planned %s", got, want)
	}
	if want, known := r.guestWay(d); guest.Paths && known && want != way(found) {
		say("it stands at %s, planned %s", way(found), want)
	}
	return differences
}

// hasMemory reports whether a BAR of memory has an address.
func hasMemory(bars []topology.BAR) bool {
	return slices.ContainsFunc(bars, func(b topology.BAR) bool { return !b.IO && !b.Unassigned })
}

// elsewhere says where the guest has functions with the ids of a device at
// places that are planned for none.
func (r Report) elsewhere(d Device, guest env.Guest) string {
	if !guest.IDs || d.function == nil || d.Kind != string(topology.KindPCI) {
		return ""
	}
	var places []string
	for _, g := range guest.Devices {
		planned := slices.ContainsFunc(r.Devices, func(d Device) bool { return orDash(d.Predicted) == g.Address.String() })
		if !planned && g.Vendor == d.function.Vendor && g.Device == d.function.Device {
			places = append(places, g.Address.String())
		}
	}
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf("; there is a %04x:%04x at %s", d.function.Vendor, d.function.Device, strings.Join(places, ", "))
}

// guestWay is the way to a device as the guest's sysfs has it: the root bus and
// the bridges. It is false where a number of it is not known.
func (r Report) guestWay(d Device) (string, bool) {
	root, bridges := 0, []string{}
	for _, index := range d.GuestPath {
		at := slices.IndexFunc(r.Controllers, func(c Controller) bool { return c.Index == index })
		switch c := r.Controllers[at]; {
		case c.Model == string(domain.ExpanderBus) && c.BusNr != nil:
			root = *c.BusNr
		case c.predicted == "":
			return "", false
		default:
			bridges = append(bridges, c.predicted)
		}
	}
	return strings.Join(append([]string{fmt.Sprintf("pci0000:%02x", root)}, bridges...), "/"), true
}

func way(d *topology.Device) string {
	parts := []string{string(d.Root)}
	for _, b := range d.Bridges {
		parts = append(parts, b.String())
	}
	return strings.Join(parts, "/")
}

// WriteText writes a line a device, and below it what differs.
func (c GuestComparison) WriteText(w io.Writer, style Style) error {
	var b strings.Builder
	writeLine(&b, style.paint(bold, fmt.Sprintf("guest as planned: %d of %s", c.Count(AsPlanned), topology.Counted(len(c.Devices), "device"))))
	b.WriteString("\n")
	for _, d := range c.Devices {
		colour := map[string]string{AsPlanned: green, Differs: red, NotCompared: yellow}[d.Outcome]
		predicted := "address not known yet"
		if d.Predicted != nil {
			predicted = *d.Predicted
		}
		line := fmt.Sprintf("%s  %s  %s  %s", pad(d.Outcome, len(NotCompared)), pad(predicted, len("0000:00:00.0")), d.ID, printable(Device{Alias: d.Alias}.title()))
		writeLine(&b, style.paint(colour, style.fit(line, textWidth)))
		for _, difference := range d.Differences {
			writeLine(&b, "  "+wrap(difference, textWidth-2, 4))
		}
	}
	for _, note := range c.Notes {
		writeLine(&b, "\nnote: "+note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
