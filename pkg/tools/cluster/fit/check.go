package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Check says whether the devices that running VMs got by claims are as near as these ask for.
type Check struct {
	SchemaVersion int            `json:"schemaVersion"` // 1
	Claims        []CheckedClaim `json:"claims"`        // one per VM that has it
}

// CheckedClaim compares what a claim asks for with what a VM got by it.
type CheckedClaim struct {
	Claim string `json:"claim"` // its namespace and name
	VM    string `json:"vm"`    // that has it, its namespace and name
	Node  string `json:"node"`  // of the VM
	Pod   string `json:"pod"`   // of the VM
	// what the claim gave, in its order; then those that requests lack, without a name
	Devices     []CheckedDevice     `json:"devices"`
	Constraints []CheckedConstraint `json:"constraints"` // in the claim's order

	Host  PathCounts `json:"host"`  // pairs of the devices in the VM on the host, by path type
	Guest PathCounts `json:"guest"` // the same in the guest
	ToDo  string     `json:"toDo"`  // "" where nothing helps, or all is as asked for
}

// CheckedDevice is a device that a claim gave.
type CheckedDevice struct {
	Request   string       `json:"request"`   // that it is for
	Driver    string       `json:"driver"`    // that publishes it
	Name      string       `json:"name"`      // in its ResourceSlice
	Published CheckedPlace `json:"published"` // where its driver says that it is
	Host      CheckedPlace `json:"host"`      // where it is on the node
	Guest     CheckedPlace `json:"guest"`     // where it is in the guest
	// why it is not in the VM or not known to be; "" of one that is, and of what no VM gets by
	// passthrough
	Problem string `json:"problem"`

	id      topology.DeviceID
	isInVM  bool
	offered OfferedDevice
}

// CheckedPlace is where a device is; what is not known is "".
type CheckedPlace struct {
	Address string `json:"address"` // PCI address
	Root    string `json:"root"`    // PCIe root, as a kernel names it; several with commas
	NUMA    string `json:"numa"`    // NUMA node; several with commas
}

// CheckedConstraint compares a constraint with what devices have.
type CheckedConstraint struct {
	Attribute  string   `json:"attribute"`  // that devices have to share
	IsDistinct bool     `json:"isDistinct"` // or no two may have the same
	Requests   []string `json:"requests"`   // whose devices; empty for all of the claim

	Published Judgement `json:"published"` // by what the drivers publish
	Host      Judgement `json:"host"`      // by where the devices are on the node
	Guest     Judgement `json:"guest"`     // by where they are in the guest
}

// Judgement says whether devices meet a constraint.
type Judgement struct {
	// yes, no, unknown, or "" where there is nothing to compare: an attribute that is no place, or
	// that the scheduler derives
	IsMet  string `json:"isMet"`
	Values string `json:"values"` // the common one, how many, or which devices have which
}

// The answers of a judgement.
const (
	isMet    = "yes"
	isNotMet = "no"
	notKnown = "unknown"
)

// RunningVM is a VM to check claims of.
type RunningVM struct {
	Name, Node, Pod string
	Plan            *placement.Plan // of its domain as it is
	ToDo            string          // for its guest to show more of the host
}

// Check compares what a claim asks for with the devices that another, or the same, gave a VM.
func (f *Fleet) Check(asked, has *resourceapi.ResourceClaim, vm RunningVM) CheckedClaim {
	c := CheckedClaim{
		Claim: userOf(has), VM: vm.Name, Node: vm.Node, Pod: vm.Pod,
		Devices: []CheckedDevice{}, Constraints: []CheckedConstraint{},
	}

	counts := map[string]int64{} // of devices by request
	for _, r := range ptr.Deref(has.Status.Allocation,
		resourceapi.AllocationResult{}).Devices.Results {
		d := f.given(r, vm.Plan)
		if requestOf(asked, r.Request) == nil {
			d.Problem = cmp.Or(d.Problem, "the claim has no such request")
		}

		c.Devices = append(c.Devices, d)
		counts[parentOf(r.Request)]++
	}

	for _, request := range asked.Spec.Devices.Requests {
		for range leastOf(request) - counts[request.Name] {
			c.Devices = append(c.Devices, CheckedDevice{
				Request: request.Name, Problem: "the claim did not get it",
			})
		}
	}

	for _, constraint := range asked.Spec.Devices.Constraints {
		c.Constraints = append(c.Constraints, c.judge(asked, constraint))
	}

	ids := c.inVM()
	c.Host, c.Guest = pairs(vm.Plan.HostTree, ids), pairs(vm.Plan.GuestTree, ids)
	c.ToDo = c.toDo(vm.ToDo)
	return c
}

// Asked returns what a claim or a template of files asks for: that of a name, or the only one.
func (o *Objects) Asked(name string) (*resourceapi.ResourceClaim, error) {
	all := slices.Clone(o.Claims)
	for _, t := range o.Templates {
		all = append(all, &resourceapi.ResourceClaim{
			ObjectMeta: t.ObjectMeta, Spec: *t.Spec.Spec.DeepCopy(),
		})
	}

	i := slices.IndexFunc(all, func(c *resourceapi.ResourceClaim) bool { return c.Name == name })
	if i < 0 && len(all) != 1 {
		return nil, fmt.Errorf("%d ResourceClaims and templates in the files, and none is %q",
			len(all), words.Abridge(name))
	}

	asked := all[max(i, 0)]
	return asked, preset(asked.Spec.Devices.Requests)
}

// given returns a device that a claim gave, with the place that it has in a VM's plan.
func (f *Fleet) given(
	r resourceapi.DeviceRequestAllocationResult, plan *placement.Plan,
) CheckedDevice {
	d := CheckedDevice{Request: r.Request, Driver: r.Driver, Name: r.Device}
	offered, isPublished := f.published(idOfResult(r))
	if !isPublished {
		d.Problem = "no ResourceSlice has it now"
		return d
	}

	d.offered = offered
	d.Published = CheckedPlace{Address: offered.Address, Root: offered.Root.String()}
	if len(offered.place.nodes) > 0 {
		d.Published.NUMA = offered.NUMA
	}

	switch {
	case !offered.isHostdev():
		return d
	case offered.Address == "":
		d.Problem = "its driver publishes no PCI address"
		return d
	}

	i := slices.IndexFunc(plan.Devices, func(p placement.Decision) bool {
		return p.ID == offered.pci
	})
	if i < 0 {
		d.Problem = "the VM's domain has no PCI device of this address"
		return d
	}

	p := plan.Devices[i]
	d.id, d.isInVM = p.ID, true
	d.Guest = guestPlace(plan, p)
	if p.Function == nil {
		d.Problem = "the node does not show it"
		return d
	}

	d.Host = CheckedPlace{Address: p.Function.Address.String(), Root: p.Function.Root.String()}
	if node, isKnown := plan.Host.Affinity(p.ID).Node(); isKnown {
		d.Host.NUMA = fmt.Sprint(node)
	}

	return d
}

// published returns a device as its slice has it, whichever nodes it is for.
func (f *Fleet) published(id deviceID) (OfferedDevice, bool) {
	for _, p := range slices.Concat(slices.Collect(maps.Values(f.pools))...) {
		for _, s := range p.slices {
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				if newDeviceID(p.driver, p.name, d.Name) == id {
					return f.offer(p, d), true
				}
			}
		}
	}

	return OfferedDevice{}, false
}

// guestPlace returns where a device is in the guest, as its kernel names it.
func guestPlace(plan *placement.Plan, d placement.Decision) (at CheckedPlace) {
	if d.Predicted != nil {
		at.Address = d.Predicted.String()
	}

	node := plan.GuestTree.Node(d.ID)
	if node == nil {
		return at
	}

	if index, isController := node.Top().ID.(topology.Index); isController {
		at.Root = guestRoot(plan, index)
	}

	switch cell := node.NUMANode(); {
	case cell != nil:
		at.NUMA = fmt.Sprint(*cell)
	case len(plan.Domain().Cells) <= 1: // the guest's only node
		at.NUMA = "0"
	}

	return at
}

// guestRoot returns the kernel's name of a root bus; "" where its number is not known.
func guestRoot(plan *placement.Plan, index topology.Index) string {
	number := 0
	for _, c := range plan.Controllers {
		switch {
		case topology.Index(c.Index) != index || index == 0:
		case c.BusNr == nil:
			return ""
		default:
			number = *c.BusNr
		}
	}

	return fmt.Sprintf("pci0000:%02x", number)
}

// inVM returns the devices that the VM has, each once: requests may share one.
func (c *CheckedClaim) inVM() (ids []topology.DeviceID) {
	for _, d := range c.Devices {
		if d.isInVM && !slices.Contains(ids, d.id) {
			ids = append(ids, d.id)
		}
	}
	return ids
}

// judge compares a constraint of a claim with the devices that it is about. Those that no VM gets
// by passthrough have no place on the host and in the guest.
func (c *CheckedClaim) judge(
	asked *resourceapi.ResourceClaim, constraint resourceapi.DeviceConstraint,
) CheckedConstraint {
	attribute := ptr.Deref(cmp.Or(constraint.MatchAttribute, constraint.DistinctAttribute), "")
	judged := CheckedConstraint{
		Attribute: string(attribute), IsDistinct: constraint.DistinctAttribute != nil,
		Requests: append([]string{}, constraint.Requests...),
	}

	var published, host, guest []valued
	for _, d := range c.Devices {
		isHeld := len(constraint.Requests) == 0 ||
			slices.Contains(constraint.Requests, d.Request) ||
			slices.Contains(constraint.Requests, parentOf(d.Request))
		if !isHeld {
			continue
		}

		name := cmp.Or(d.Name, d.Request)
		if !derives(asked, d.Request, string(attribute)) {
			published = append(published, valued{name, d.offered.values(string(attribute))})
		}
		if d.offered.published == nil || d.offered.isHostdev() {
			host = append(host, valued{name, d.Host.value(meaning(string(attribute)))})
			guest = append(guest, valued{name, d.Guest.value(meaning(string(attribute)))})
		}
	}

	judged.Published = judge(judged.IsDistinct, published)
	if m := meaning(string(attribute)); m == isRoot || m == isNode {
		judged.Host, judged.Guest = judge(judged.IsDistinct, host), judge(judged.IsDistinct, guest)
	}

	return judged
}

// value returns what a place has of a property, nothing where that is not known.
func (p CheckedPlace) value(of property) []string {
	value := map[property]string{isRoot: p.Root, isNode: p.NUMA}[of]
	if value == "" {
		return nil
	}
	return []string{value}
}

// valued is a device with the values of an attribute.
type valued struct {
	device string
	values []string
}

// judge reports whether devices share a value, or are distinct.
func judge(isDistinct bool, devices []valued) Judgement {
	if len(devices) == 0 {
		return Judgement{}
	}

	with := map[string][]string{} // devices by value
	var without []string
	for _, d := range devices {
		for _, value := range d.values {
			with[value] = append(with[value], d.device)
		}
		if len(d.values) == 0 {
			without = append(without, d.device)
		}
	}

	most, shared := 0, ""
	for _, value := range slices.Sorted(maps.Keys(with)) {
		if len(with[value]) > most {
			most, shared = len(with[value]), value
		}
	}

	known := len(devices) - len(without)
	isKept := most == known
	if isDistinct {
		isKept = most <= 1
	}

	switch {
	case !isKept:
		return Judgement{isNotMet, listed(with, without)}
	case len(without) > 0:
		return Judgement{notKnown, listed(with, without)}
	case isDistinct:
		return Judgement{isMet, words.Counted(known, "value")}
	}

	return Judgement{isMet, shared}
}

// listed lists values with the devices that have them, and those that have none.
func listed(with map[string][]string, without []string) string {
	var parts []string
	for _, value := range slices.Sorted(maps.Keys(with)) {
		parts = append(parts, fmt.Sprintf("%s of %s", value, strings.Join(with[value], " ")))
	}
	if len(without) > 0 {
		parts = append(parts, "none of "+strings.Join(without, " "))
	}
	return strings.Join(parts, ", ")
}

// IsAsAsked reports whether every claim gave all devices, as near as it asks for.
func (c Check) IsAsAsked() bool {
	return !slices.ContainsFunc(c.Claims, func(c CheckedClaim) bool {
		devices, constraints := c.asAsked()
		return devices < len(c.Devices) || constraints < len(c.Constraints)
	})
}

// asAsked counts the devices in the VM, and the constraints that are met.
func (c *CheckedClaim) asAsked() (devices, constraints int) {
	return topology.CountFunc(c.Devices, func(d CheckedDevice) bool { return d.Problem == "" }),
		topology.CountFunc(c.Constraints, CheckedConstraint.isMet)
}

// isMet reports whether nothing is known against the constraint, and nothing unknown.
func (c CheckedConstraint) isMet() bool {
	return !slices.ContainsFunc([]Judgement{c.Published, c.Host, c.Guest}, Judgement.isOpen)
}

func (j Judgement) isOpen() bool { return j.IsMet == isNotMet || j.IsMet == notKnown }

// toDo returns what helps: for a guest that does not show what the host has, its own remedy.
func (c *CheckedClaim) toDo(ofGuest string) string {
	for _, constraint := range c.Constraints {
		switch {
		case constraint.Published.IsMet == isNotMet:
			return "restart the VM with a claim that asks for this: a claim keeps its devices " +
				"while a pod has it"
		case !constraint.Host.isOpen() && constraint.Guest.isOpen():
			return ofGuest
		}
	}

	return ""
}
