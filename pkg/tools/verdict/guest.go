package verdict

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/report"
	"hook-sidecar/pkg/tools/paste"
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

	subject report.Subject
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

	title string
}

// CompareGuest compares a plan with the guest: address, ids, NUMA node and, if the guest shows
// them, the path types to the other devices.
func CompareGuest(r report.Report, guest paste.Machine) GuestComparison {
	c := GuestComparison{
		SchemaVersion: 1,
		Source:        guest.SourceNames(),
		Devices:       []GuestDevice{},
		subject:       r.Subject,
	}

	planned := planned{r, guest, positionsOf(r, guest)}
	unlisted := 0
	for i, d := range r.Devices {
		seen := GuestDevice{
			ID:          d.ID,
			Alias:       d.Alias,
			Predicted:   d.Predicted,
			Outcome:     NotCompared,
			Differences: []string{},
			title:       d.Title(),
		}

		isThere, elsewhere := planned.positions[i] >= 0, ""
		if !isThere {
			elsewhere = planned.elsewhere(d)
		}

		switch {
		case d.Predicted == nil:
		// That a source does not list a device proves something only if it lists all of the kind,
		// or has a device like it at an address that nothing is planned for.
		case !isThere && !guest.ShowsAll(d.Function()) && elsewhere == "":
			unlisted++
		case !isThere:
			seen.Outcome, seen.Differences = Differs, []string{
				fmt.Sprintf("nothing at %s%s", d.Predicted, elsewhere),
			}

		default:
			seen.Outcome = AsPlanned
			seen.Differences = planned.differences(i)
			if len(seen.Differences) > 0 {
				seen.Outcome = Differs
			}
		}

		c.Devices = append(c.Devices, seen)
	}

	c.Notes = guestNotes(guest, unlisted)
	return c
}

// planned is a report, with where the guest shows its devices.
type planned struct {
	report.Report
	guest     paste.Machine
	positions []int // of each device in the guest's functions; -1 if it is not there
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

// positionsOf returns the position in the guest of each device of the report, or -1. Without
// addresses, those of a kind are matched in order if both sides have as many.
func positionsOf(r report.Report, guest paste.Machine) []int {
	positions := make([]int, len(r.Devices))
	for i, d := range r.Devices {
		positions[i] = -1
		if d.Predicted != nil {
			positions[i] = slices.IndexFunc(guest.Functions, func(f topology.Function) bool {
				return f.Address == *d.Predicted
			})
		}
	}

	match(r, positions, guest, topology.VendorNVIDIA, (*topology.Function).IsGPU)
	match(r, positions, guest, topology.VendorMellanox, (*topology.Function).IsNIC)
	return positions
}

// match sets the positions of the devices of a vendor and a kind in a guest without addresses.
func match(
	r report.Report, positions []int, guest paste.Machine, vendor uint16,
	isKind func(*topology.Function) bool,
) {
	var planned, seen []int
	for i, d := range r.Devices {
		if isKind(d.Function()) && d.Function().Vendor == vendor {
			planned = append(planned, i)
		}
	}

	for i := range guest.Functions {
		if isKind(&guest.Functions[i]) && !paste.HasAddress(guest.Functions[i].Address) {
			seen = append(seen, i)
		}
	}

	hasNoAddress := func(i int) bool { return r.Devices[i].Predicted == nil }

	// With another number on one side, one that is missing would shift all that come after it.
	if len(planned) != len(seen) || slices.ContainsFunc(planned, hasNoAddress) {
		return
	}

	// GPUs are numbered by address. That NICs are named by it, too, is a guess, which a note
	// says.
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

// differences returns the differences between a device whose address is predicted and what the
// guest has there, as far as the guest shows it.
func (p planned) differences(i int) []string {
	d, found := p.Devices[i], &p.guest.Functions[p.positions[i]]
	differences := append([]string{}, p.functionDifferences(d, found)...)

	var want topology.Affinity
	if d.GuestCell != nil {
		want = topology.OnNode(topology.NodeID(*d.GuestCell))
	}

	// On a guest with one node nvidia-smi shows a GPU without a node as on node 0.
	isRounded := p.guest.Has(paste.NVIDIASMI) && d.GuestCell == nil
	if p.guest.KnowsNode(found) && !isRounded && found.Node != want {
		differences = append(differences,
			fmt.Sprintf("NUMA node %s, planned %s", found.Node, want))
	}

	return append(differences, p.pathDifferences(i)...)
}

// functionDifferences compares ids and memory of a device with the function at its address. A
// mediated device has ids and BARs of its own.
func (p planned) functionDifferences(
	d report.DeviceReport, found *topology.Function,
) (differences []string) {
	host := d.Function()
	if host == nil || d.Kind != topology.KindPCI {
		return nil
	}

	if found.Device != 0 && found.IDs() != host.IDs() {
		differences = append(differences, fmt.Sprintf("it is a %s, on the host %s%s", found.IDs(),
			host.IDs(), p.elsewhere(d)))
	}

	if hasMemory(host.BARs) && found.BARs != nil && !hasMemory(found.BARs) {
		differences = append(differences,
			"none of its memory BARs has an address, so no driver can use it")
	}

	return differences
}

// pathDifferences counts the path types from a device to others that are not as planned, and names
// the first.
func (p planned) pathDifferences(i int) []string {
	// The topology file has the host's switches.
	isOfHost := p.guest.Has(paste.NCCL) &&
		p.Policy[policy.KeyNCCLTopology].Value != policy.NCCLTopologyNone
	from := p.guest.Functions[p.positions[i]].Address
	first, count := "", 0
	for j, at := range p.positions {
		if i == j || at < 0 {
			continue
		}

		planned := p.Paths.Guest.Between(i, j)
		if isOfHost {
			planned = p.Paths.Host.Between(i, j)
		}

		shown, isKnown := p.guest.PathType(from, p.guest.Functions[at].Address)
		if !isKnown || min(shown, p.guest.Farthest) == min(planned, p.guest.Farthest) {
			continue
		}

		first = cmp.Or(first,
			fmt.Sprintf("%s to %s, planned %s", shown, p.Devices[j].Title(), planned))
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
func (p planned) elsewhere(d report.DeviceReport) string {
	function := d.Function()
	if function == nil || d.Kind != topology.KindPCI {
		return ""
	}

	var places []string
	for _, f := range p.guest.Functions {
		isPlanned := slices.ContainsFunc(p.Devices, func(d report.DeviceReport) bool {
			return topology.Same(d.Predicted, &f.Address)
		})
		if !isPlanned && f.IDs() == function.IDs() {
			places = append(places, f.Address.String())
		}
	}

	if len(places) == 0 {
		return ""
	}

	return fmt.Sprintf("; there is a %s at %s", function.IDs(), strings.Join(places, ", "))
}

var outcomeColours = map[GuestOutcome]report.Colour{
	AsPlanned: report.Green, Differs: report.Red, NotCompared: report.Yellow,
}

// WriteText writes one line per device, and its differences under it.
func (c GuestComparison) WriteText(w io.Writer, style report.Style) error {
	var b strings.Builder
	b.WriteString(c.subject.Text(style))
	b.WriteString(style.Paint(report.Bold,
		fmt.Sprintf("guest as planned: %d of %s", c.Count(AsPlanned),
			words.Counted(len(c.Devices), "device"))) + "\n\n")

	for _, d := range c.Devices {
		predicted := "address not known yet"
		if d.Predicted != nil {
			predicted = d.Predicted.String()
		}

		line := fmt.Sprintf("%-*s  %-*s  %s  %s", len(NotCompared), d.Outcome, len("0000:00:00.0"),
			predicted, d.ID, d.title)

		b.WriteString(style.Paint(outcomeColours[d.Outcome],
			report.Fit(line, style.Columns())) + "\n")
		for _, difference := range d.Differences {
			b.WriteString("  " + report.Wrap(difference, style.Columns(), 2, 4) + "\n")
		}
	}

	for _, note := range c.Notes {
		b.WriteString("\n" + report.Wrap("note: "+note, style.Columns(), 0, 2) + "\n")
	}

	_, err := io.WriteString(w, b.String())
	return err
}
