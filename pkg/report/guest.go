package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// GuestComparison compares each device in the guest with the plan.
type GuestComparison struct {
	SchemaVersion int `json:"schemaVersion"` // 1
	// snapshot, lspci, lstopo, nccl or nvidia-smi
	Source  string        `json:"source"`
	Devices []GuestDevice `json:"devices"` // by id
	Notes   []string      `json:"notes"`   // aspects that were compared for no device

	subject Subject
}

// GuestOutcome is the outcome of comparing a device.
type GuestOutcome string

// The outcomes.
const (
	AsPlanned GuestOutcome = "as-planned"
	Differs   GuestOutcome = "differs"
	// its address is not known until libvirt gives addresses, or the source does not list it
	NotCompared GuestOutcome = "not-compared"
)

// GuestDevice is a device as the guest shows it.
type GuestDevice struct {
	ID        topology.DeviceID `json:"id"`        // on the host
	Alias     *string           `json:"alias"`     // in the domain
	Predicted *topology.Address `json:"predicted"` // planned address in the guest's kernel
	// as-planned, differs, or not-compared until libvirt gives an address, and where the source
	// does not list the device
	Outcome     GuestOutcome `json:"outcome"`
	Differences []string     `json:"differences"` // the differences, in sentences
}

// CompareGuest compares a plan with the guest: address, ids, NUMA node and, if the guest shows
// them, the path types to the other devices.
func CompareGuest(r Report, guest paste.Machine) GuestComparison {
	c := GuestComparison{
		SchemaVersion: SchemaVersion,
		Source:        guest.SourceNames(),
		Devices:       []GuestDevice{},
		subject:       r.Subject,
	}

	positions := r.positions(guest)
	unlisted := 0
	for i, d := range r.Devices {
		seen := GuestDevice{
			ID:          d.ID,
			Alias:       d.Alias,
			Predicted:   d.Predicted,
			Outcome:     NotCompared,
			Differences: []string{},
		}

		elsewhere := ""
		if positions[i] < 0 {
			elsewhere = r.elsewhere(d, guest)
		}

		switch {
		case d.Predicted == nil:
		case positions[i] < 0 && !guest.ShowsAll(d.function) && elsewhere == "":
			unlisted++
		case positions[i] < 0:
			seen.Outcome, seen.Differences = Differs, []string{
				fmt.Sprintf("nothing at %s%s", d.Predicted, elsewhere),
			}

		default:
			seen.Outcome = AsPlanned
			seen.Differences = r.guestDifferences(i, positions, guest)
			if len(seen.Differences) > 0 {
				seen.Outcome = Differs
			}
		}

		c.Devices = append(c.Devices, seen)
	}

	c.Notes = guestNotes(guest, unlisted)
	return c
}

// guestNotes names what the source of a guest cannot say.
func guestNotes(guest paste.Machine, unlisted int) []string {
	notes := []string{}
	add := func(isMissing bool, format string, values ...any) {
		if isMissing {
			notes = append(notes, fmt.Sprintf(format, values...))
		}
	}

	hasNoIDs := !slices.ContainsFunc(guest.Functions, func(d topology.Function) bool {
		return d.Device != 0
	})

	isMatrix := !hasAddresses(guest)
	add(hasNoIDs && !isMatrix,
		"vendor and device ids are not compared: they are not in the file; lspci prints them "+
			"with -nn only")

	add(!guest.HasNodes(),
		"NUMA nodes are not compared: lstopo shows them on Linux in a guest with several, "+
			"nvidia-smi if each GPU has all columns")

	add(guest.Farthest == topology.Self,
		"path types are not compared: a snapshot, lstopo or nvidia-smi topo -mp shows them, lspci "+
			"does not")

	add(isMatrix,
		"nvidia-smi shows no addresses: GPUs are matched by order, which is that of their "+
			"addresses; NICs by the order of their names, which is a guess. Compared are NUMA "+
			"nodes of GPUs and path types, except through NVLink (-mp shows these)")

	add(isMatrix && unlisted > 0,
		"%s not compared: nvidia-smi lists more, fewer or none of the kind, so which is which is "+
			"not known", words.Counted(unlisted, "device"))

	add(!isMatrix && unlisted > 0,
		"%s not compared: the guest may have what %s does not list",
		words.Counted(unlisted, "device"), guest.SourceNames())

	return append(notes, guest.Notes...)
}

// hasAddresses reports whether a guest shows the address of any function.
func hasAddresses(guest paste.Machine) bool {
	return slices.ContainsFunc(guest.Functions, func(d topology.Function) bool {
		return paste.HasAddress(d.Address)
	})
}

// positions returns the position in the guest of each device of the report, or -1. Without
// addresses, those of a kind are matched in order if both sides have as many.
func (r Report) positions(guest paste.Machine) []int {
	positions := make([]int, len(r.Devices))
	for i, d := range r.Devices {
		positions[i] = -1
		if d.Predicted != nil {
			positions[i] = slices.IndexFunc(guest.Functions, func(f topology.Function) bool {
				return f.Address == *d.Predicted
			})
		}
	}

	const nvidia, mellanox = 0x10de, 0x15b3
	r.match(positions, guest, nvidia, (*topology.Function).IsGPU)
	r.match(positions, guest, mellanox, (*topology.Function).IsNIC)
	return positions
}

// match sets the positions of the devices of a vendor and a kind in a guest without addresses.
func (r Report) match(
	positions []int, guest paste.Machine, vendor uint16, isKind func(*topology.Function) bool,
) {
	var planned, seen []int
	for i, d := range r.Devices {
		if isKind(d.function) && d.function.Vendor == vendor {
			planned = append(planned, i)
		}
	}

	for i := range guest.Functions {
		if isKind(&guest.Functions[i]) && !paste.HasAddress(guest.Functions[i].Address) {
			seen = append(seen, i)
		}
	}

	hasNoAddress := func(i int) bool { return r.Devices[i].Predicted == nil }
	if len(planned) != len(seen) || slices.ContainsFunc(planned, hasNoAddress) {
		return
	}

	slices.SortFunc(planned, func(i, j int) int {
		return r.Devices[i].Predicted.Compare(*r.Devices[j].Predicted)
	})

	slices.SortFunc(seen, func(i, j int) int { // mlx5_2 before mlx5_10
		a, b := guest.Names[guest.Functions[i].Address], guest.Names[guest.Functions[j].Address]
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})

	for k, i := range planned {
		positions[i] = seen[k]
	}
}

// Count returns how many devices have an outcome.
func (c GuestComparison) Count(outcome GuestOutcome) int {
	return topology.CountFunc(c.Devices, func(d GuestDevice) bool { return d.Outcome == outcome })
}

// guestDifferences returns the differences between a device whose address is predicted and what
// the guest has there, as far as the guest shows it.
func (r Report) guestDifferences(i int, positions []int, guest paste.Machine) []string {
	d, found := r.Devices[i], &guest.Functions[positions[i]]
	differences := append([]string{}, r.functionDifferences(d, found, guest)...)

	var want topology.Affinity
	if d.GuestCell != nil {
		want = topology.OnNode(topology.NodeID(*d.GuestCell))
	}

	// On a guest with one node nvidia-smi shows a GPU without a node as on node 0.
	isRounded := guest.Has(paste.NVIDIASMI) && d.GuestCell == nil
	if guest.KnowsNode(found) && !isRounded && found.Node != want {
		differences = append(differences,
			fmt.Sprintf("NUMA node %s, planned %s", found.Node, want))
	}

	return append(differences, r.pathDifferences(i, positions, guest)...)
}

// functionDifferences compares ids and memory of a device with the function at its address. A
// mediated device has ids and BARs of its own.
func (r Report) functionDifferences(
	d DeviceReport, found *topology.Function, guest paste.Machine,
) (differences []string) {
	host := d.function
	if host == nil || d.Kind != topology.KindPCI {
		return nil
	}

	if found.Device != 0 && found.IDs() != host.IDs() {
		differences = append(differences, fmt.Sprintf("it is a %s, on the host %s%s", found.IDs(),
			host.IDs(), r.elsewhere(d, guest)))
	}

	if hasMemory(host.BARs) && found.BARs != nil && !hasMemory(found.BARs) {
		differences = append(differences,
			"none of its memory BARs has an address, so no driver can use it")
	}

	return differences
}

// pathDifferences counts the path types from a device to others that are not as planned, and names
// the first.
func (r Report) pathDifferences(i int, positions []int, guest paste.Machine) []string {
	// The topology file has the host's switches.
	isOfHost := guest.Has(paste.NCCL) &&
		r.Policy[policy.KeyNCCLTopology].Value != policy.NCCLTopologyNone
	from := guest.Functions[positions[i]].Address
	first, count := "", 0
	for j, at := range positions {
		if i == j || at < 0 {
			continue
		}

		planned := r.Paths.Guest.Between(i, j)
		if isOfHost {
			planned = r.Paths.Host.Between(i, j)
		}

		shown, isKnown := guest.PathType(from, guest.Functions[at].Address)
		if !isKnown || min(shown, guest.Farthest) == min(planned, guest.Farthest) {
			continue
		}

		first = cmp.Or(first,
			fmt.Sprintf("%s to %s, planned %s", shown, r.Devices[j].Title(), planned))
		count++
	}

	if count == 0 {
		return nil
	}

	return []string{
		fmt.Sprintf("%s not as planned: %s", words.Counted(count, "path type"), first),
	}
}

// hasMemory reports whether a BAR of memory has an address.
func hasMemory(bars []topology.BAR) bool {
	return slices.ContainsFunc(bars, func(b topology.BAR) bool { return !b.IO && !b.Unassigned })
}

// elsewhere lists functions with a device's ids at addresses that no device is planned for.
func (r Report) elsewhere(d DeviceReport, guest paste.Machine) string {
	if d.function == nil || d.Kind != topology.KindPCI {
		return ""
	}

	var places []string
	for _, f := range guest.Functions {
		isPlanned := slices.ContainsFunc(r.Devices, func(d DeviceReport) bool {
			return topology.Same(d.Predicted, &f.Address)
		})
		if !isPlanned && f.IDs() == d.function.IDs() {
			places = append(places, f.Address.String())
		}
	}

	if len(places) == 0 {
		return ""
	}

	return fmt.Sprintf("; there is a %s at %s", d.function.IDs(), strings.Join(places, ", "))
}

var outcomeColours = map[GuestOutcome]Colour{AsPlanned: Green, Differs: Red, NotCompared: Yellow}

// WriteText writes one line per device, and its differences under it.
func (c GuestComparison) WriteText(w io.Writer, style Style) error {
	p := &printer{Style: style}
	p.subject(c.subject)
	p.line(p.Paint(bold,
		fmt.Sprintf("guest as planned: %d of %s", c.Count(AsPlanned),
			words.Counted(len(c.Devices), "device"))))

	p.line("")

	for _, d := range c.Devices {
		line := fmt.Sprintf("%-*s  %-*s  %s  %s", len(NotCompared), d.Outcome, len("0000:00:00.0"),
			or(d.Predicted, "address not known yet"),
			d.ID, title(d.Alias))

		p.line(p.Paint(outcomeColours[d.Outcome], Fit(line, p.width())))
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
