package report

import (
	"fmt"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// SchemaVersion is the version of Report as JSON. It rises when a field goes or
// changes its meaning, not when one is added.
const SchemaVersion = 1

// Report is what explain prints as JSON. A null stands for what is not known.
type Report struct {
	SchemaVersion int                `json:"schemaVersion"`
	Layout        string             `json:"layout"`
	Changed       bool               `json:"changed"`
	DryRun        bool               `json:"dryRun"`
	Error         *string            `json:"error"`
	Policy        map[string]Setting `json:"policy"`
	Devices       []Device           `json:"devices"`     // by id, PCI before mdev
	Controllers   []Controller       `json:"controllers"` // by index
	Paths         Paths              `json:"paths"`
	Budgets       Budgets            `json:"budgets"`
	Warnings      []Warning          `json:"warnings"`

	asIs bool // of the domain as it stands, not as planned
}

// Setting is a key of the policy with its origin: default, flag or annotation.
type Setting struct {
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Device is a passthrough device, where it stands and why.
type Device struct {
	ID           string   `json:"id"` // PCI address of the host, or UUID
	Alias        *string  `json:"alias"`
	Kind         string   `json:"kind"` // "pci" or "mdev"
	Resource     *string  `json:"resource"`
	Added        bool     `json:"added"`
	HostNode     *int     `json:"hostNode"`
	PCIeRoot     *string  `json:"pcieRoot"`
	HostPath     []string `json:"hostPath"` // bridges, root port first
	IOMMUGroup   *int     `json:"iommuGroup"`
	Outcome      string   `json:"outcome"` // "placed", "kept" or "unplaced"
	Reason       string   `json:"reason"`
	GuestCell    *int     `json:"guestCell"`
	GuestAddress *string  `json:"guestAddress"` // as libvirt numbers it: the bus is a controller's index
	GuestPath    []int    `json:"guestPath"`    // controller indexes, expander first
	Predicted    *string  `json:"predicted"`    // as the guest's kernel shows it

	// What the pictures need beside that; it is no part of the schema.
	function *topology.Device // of the host; a mediated device's parent
}

// Controller is a PCI controller of the domain after the plan.
type Controller struct {
	Index    int    `json:"index"`
	Model    string `json:"model"`
	Parent   *int   `json:"parent"` // index; null until libvirt gives an address
	Slot     *int   `json:"slot"`
	Function *int   `json:"function"`
	BusNr    *int   `json:"busNr"`
	Cell     *int   `json:"cell"`
	Origin   string `json:"origin"` // "existing" or "planned"

	predicted string // what the guest's kernel shows, "" when not known
}

// Paths are the path types between devices; the diagonal is "X".
type Paths struct {
	Devices []string              `json:"devices"`
	Host    [][]topology.PathType `json:"host"`
	Guest   [][]topology.PathType `json:"guest"`
}

// Budgets say how much of what is scarce is used.
type Budgets struct {
	BusNumbers        BusNumbers `json:"busNumbers"`
	ControllerIndexes Budget     `json:"controllerIndexes"`
	BARs              BARs       `json:"bars"`
}

// BusNumbers is the main bus's budget and that of each expander bus.
type BusNumbers struct {
	Budget
	Expanders []Expander `json:"expanders"`
}

// Budget is what is used of a limit.
type Budget struct {
	Used  int `json:"used"`
	Limit int `json:"limit"`
}

// Expander is the budget of bus numbers of one expander bus.
type Expander struct {
	Index int `json:"index"`
	BusNr int `json:"busNr"`
	Budget
}

// BARs is the address space that the devices take.
type BARs struct {
	Bytes64 uint64 `json:"bytes64"` // of all 64-bit memory BARs
}

// Warning is something to know, with what to do about it.
type Warning struct {
	Code   string  `json:"code"`
	Device *string `json:"device"`
	Text   string  `json:"text"`
	Remedy string  `json:"remedy"`
}

// New reports a plan. Plan is nil where an error came before it.
func New(plan *placement.Plan, changed bool, err error) Report {
	r := Report{
		SchemaVersion: SchemaVersion, Changed: changed,
		Policy: map[string]Setting{}, Devices: []Device{}, Controllers: []Controller{}, Warnings: []Warning{},
		Paths:   Paths{Devices: []string{}, Host: [][]topology.PathType{}, Guest: [][]topology.PathType{}},
		Budgets: Budgets{BusNumbers: BusNumbers{Expanders: []Expander{}}},
	}
	if err != nil {
		r.Error = new(err.Error())
	}
	if plan == nil {
		return r
	}
	r.Layout, r.DryRun = string(plan.Policy.Layout), plan.Policy.DryRun
	for _, key := range policy.Keys() {
		r.Policy[string(key)] = Setting{Value: plan.Policy.Value(key), Origin: string(plan.Policy.Origins[key])}
	}
	for _, d := range plan.Devices {
		r.Devices = append(r.Devices, device(d))
		r.Paths.Devices = append(r.Paths.Devices, d.ID.String())
	}
	for _, c := range plan.Controllers {
		r.Controllers = append(r.Controllers, controller(c))
	}
	r.Paths.Host, r.Paths.Guest = plan.HostTree.PathTypes(plan.IDs()), plan.GuestTree.PathTypes(plan.IDs())
	r.Budgets = budgets(plan.Budgets)
	for _, w := range plan.Warnings {
		r.Warnings = append(r.Warnings, Warning{
			Code: string(w.Code), Device: text(w.Device), Text: w.Text, Remedy: w.Remedy,
		})
	}
	return r
}

func device(d placement.Decision) Device {
	out := Device{
		ID: d.ID.String(), Alias: unlessEmpty(d.Alias), Kind: string(d.ID.Kind()), Resource: unlessEmpty(d.Resource),
		Added: d.Added, PCIeRoot: unlessEmpty(string(d.PCIeRoot)), HostPath: []string{}, IOMMUGroup: d.IOMMUGroup,
		Outcome: string(d.Outcome), Reason: string(d.Reason), GuestCell: number(d.Cell),
		GuestPath: []int{}, Predicted: text(d.Predicted), function: d.Function,
	}
	if node, known := d.HostNode.Node(); known {
		out.HostNode = new(int(node))
	}
	for _, bridge := range d.HostPath {
		out.HostPath = append(out.HostPath, bridge.String())
	}
	if d.Address != nil {
		out.GuestAddress = new(guestAddress(*d.Address))
		out.GuestPath = append(out.GuestPath, d.GuestPath...)
	}
	return out
}

// guestAddress writes an address as libvirt numbers it, in the kernel's form.
func guestAddress(a domain.GuestAddress) string {
	return fmt.Sprintf("0000:%02x:%02x.%x", a.Bus, a.Slot, a.Function)
}

func controller(c placement.Controller) Controller {
	out := Controller{Index: c.Index, Model: string(c.Model), BusNr: c.BusNr, Cell: number(c.Cell), Origin: c.Origin}
	if c.Predicted != nil {
		out.predicted = c.Predicted.String()
	}
	if c.Address != nil {
		out.Parent, out.Slot, out.Function = &c.Address.Bus, &c.Address.Slot, &c.Address.Function
	}
	return out
}

func budgets(b placement.Budgets) Budgets {
	out := Budgets{
		BusNumbers:        BusNumbers{Budget: Budget(b.BusNumbers), Expanders: []Expander{}},
		ControllerIndexes: Budget(b.ControllerIndexes),
		BARs:              BARs{Bytes64: b.BARBytes64},
	}
	for _, e := range b.Expanders {
		out.BusNumbers.Expanders = append(out.BusNumbers.Expanders, Expander{Index: e.Index, BusNr: e.BusNr, Budget: Budget(e.Budget)})
	}
	return out
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func text[T fmt.Stringer](v *T) *string {
	if v == nil {
		return nil
	}
	return new((*v).String())
}

func number[T ~int](v *T) *int {
	if v == nil {
		return nil
	}
	return new(int(*v))
}
