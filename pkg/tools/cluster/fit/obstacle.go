package fit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"hook-sidecar/pkg/words"
)

// want is a request for devices of one kind.
type want struct {
	name        string // of the request
	class       string
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	capacity    map[resourceapi.QualifiedName]resource.Quantity // of each
	derived     []string                                        // attributes
	count       int64                                           // of them; 0 with isForAll
}

// isForAll reports whether a request is for all devices of a kind that there are.
func (w *want) isForAll() bool { return w.count == 0 }

// demand is what the requests of a VM want that ask for the same: they choose of the same devices.
type demand struct {
	want
	counts    []int64         // per request
	all, left []OfferedDevice // of their kind, and those that they can get
	obstacles []string        // to get the others, beside their use
}

// key is the same for requests that ask for the same.
func (w *want) key() string {
	return fmt.Sprint(w.kind(), w.tolerations, w.capacity, w.derived, w.isForAll())
}

// obstacle explains why claims cannot be met: too few devices of a kind that are free, untainted
// and of a complete pool, a matchAttribute that their driver does not publish, or of which too few
// have the same value; "" if neither. The allocator gives no cause, and searches exhaustively where
// it cannot succeed. What is said here has to be true of every choice that it has.
func (n *node) obstacle(
	ctx context.Context, claims []*resourceapi.ResourceClaim, t taken,
) string {
	demands := map[string]*demand{}
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			w := wantOf(request)
			if w == nil {
				continue
			}

			d := demands[w.key()]
			if d == nil {
				class, err := n.Get(w.class)
				if err != nil {
					return err.Error()
				}

				d = n.demand(ctx, w, class, t)
				demands[w.key()] = d
			}

			d.counts = append(d.counts, w.count)
		}
	}

	for _, claim := range claims {
		if why := n.claimObstacle(claim, demands); why != "" {
			return why
		}
	}

	return n.kindShortage(demands)
}

// claimObstacle explains why one claim cannot be met.
func (n *node) claimObstacle(
	claim *resourceapi.ResourceClaim, demands map[string]*demand,
) string {
	for _, request := range claim.Spec.Devices.Requests {
		w := wantOf(request)
		if w == nil {
			continue
		}

		d := demands[w.key()]
		if why := cmp.Or(n.shortage(d), unpublished(claim, w, d.left)); why != "" {
			return why
		}
	}

	for _, c := range claim.Spec.Devices.Constraints {
		if why := n.unshared(claim, c, demands); why != "" {
			return why
		}
	}

	return ""
}

// demand returns what a request can get: devices that match its selectors, are not taken, tolerated
// and large enough.
func (n *node) demand(
	ctx context.Context, w *want, class *resourceapi.DeviceClass, t taken,
) *demand {
	d := &demand{want: *w}
	counts := map[string]int{}
	for _, device := range n.candidates(ctx, w, class) {
		// What could not be given by any device of its size is not meant by a request for all.
		if w.isForAll() && lacks(device, w.capacity, newTaken()) != "" {
			continue
		}

		d.all = append(d.all, device)
		taints, less := taintsOf(device.published, w.tolerations), lacks(device, w.capacity, t)
		switch {
		case t.has(device.id):
		case device.State == incomplete:
			counts[device.By]++
		case taints != "":
			counts["taint "+taints]++
		case less != "":
			counts[less]++
		default:
			d.left = append(d.left, device)
		}
	}

	for _, obstacle := range slices.Sorted(maps.Keys(counts)) {
		d.obstacles = append(d.obstacles,
			fmt.Sprintf("%d not counted: %s", counts[obstacle], obstacle))
	}

	return d
}

// candidates returns the devices that match a request's selectors.
func (n *node) candidates(
	ctx context.Context, w *want, class *resourceapi.DeviceClass,
) []OfferedDevice {
	kind := w.kind()
	if found, isKnown := n.matching[kind]; isKnown {
		return found
	}

	var found []OfferedDevice
	selectors := slices.Concat(class.Spec.Selectors, w.selectors)
	for _, d := range n.devices {
		if d.published != nil && n.allocator.matches(ctx, d.Driver, d.published, selectors) {
			found = append(found, d)
		}
	}

	n.matching[kind] = found
	return found
}

// lacks says which capacity of a device is less than a request takes, "" where there is enough. The
// device may round the request up (KEP-5075): this is the least that it takes.
func lacks(
	d OfferedDevice, requests map[resourceapi.QualifiedName]resource.Quantity, t taken,
) string {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if _, has := d.published.Capacity[name]; !has {
			return "no capacity " + string(name)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(d.published.Capacity)) {
		c := d.published.Capacity[name]
		takes := c.Value
		policy := ptr.Deref(c.RequestPolicy, resourceapi.CapacityRequestPolicy{})
		if request, isSet := requests[name]; isSet {
			takes = request
			if r := policy.ValidRange; r != nil && r.Min != nil && r.Min.Cmp(takes) > 0 {
				takes = *r.Min
			}
		} else if policy.Default != nil {
			takes = *policy.Default
		}

		if left := t.left(d.id, name, c.Value); left.Cmp(takes) < 0 {
			return fmt.Sprintf("less than %s of %s left", takes.String(), name)
		}
	}

	return ""
}

// kindShortage says that fewer devices of a kind are left than requests of all tolerations and
// capacities need together, "" where there are enough.
func (n *node) kindShortage(demands map[string]*demand) string {
	kinds := map[string]*demand{}
	for _, key := range slices.Sorted(maps.Keys(demands)) {
		d := demands[key]
		if d.isForAll() {
			continue
		}

		if kinds[d.kind()] == nil {
			kinds[d.kind()] = &demand{want: d.want}
		}

		kind := kinds[d.kind()]
		kind.counts = append(kind.counts, d.counts...)
		kind.all, kind.left = d.all, append(kind.left, d.left...)
	}

	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if why := n.shortage(kinds[kind]); why != "" {
			return why
		}
	}

	return ""
}

// shortage says that fewer devices are left than requests need, "" where there are enough.
func (n *node) shortage(d *demand) string {
	own, shared := n.supply(d.left)
	all, allShared := n.supply(d.all)
	need := needed(d.counts, shared)

	var why string
	switch {
	case d.isForAll() && len(d.all) == 0:
		why = fmt.Sprintf("there is no %s", d.kind())
	case d.isForAll() && int(own+shared) < len(d.all):
		why = fmt.Sprintf("%d of %d %s are free, and the request is for all", own+shared,
			len(d.all), d.kind())
	case !d.isForAll() && own+shared < need:
		why = fmt.Sprintf("%d of %d %s are free, %d needed", own+shared, all+allShared, d.kind(),
			need)
	default:
		return ""
	}

	if functions := int(all + allShared); functions < len(d.all) {
		why += fmt.Sprintf("; the %d devices are %s", len(d.all),
			words.Counted(functions, "function"))
	}

	return strings.Join(append([]string{why}, d.obstacles...), "; ")
}

// unpublished names an attribute that the devices of a request have to share and do not have.
func unpublished(claim *resourceapi.ResourceClaim, w *want, left []OfferedDevice) string {
	for _, c := range claim.Spec.Devices.Constraints {
		if c.MatchAttribute == nil || !w.isHeldBy(c) {
			continue
		}
		if isPublished, other := publishes(left, string(*c.MatchAttribute)); !isPublished {
			return fmt.Sprintf("%s has no %s%s", w.kind(), *c.MatchAttribute, other)
		}
	}

	return ""
}

// isHeldBy reports whether a constraint is about a request's published attributes; without any
// request it is about all.
func (w *want) isHeldBy(c resourceapi.DeviceConstraint) bool {
	isDerived := c.MatchAttribute != nil && slices.Contains(w.derived, string(*c.MatchAttribute))
	return !isDerived && (len(c.Requests) == 0 || slices.Contains(c.Requests, w.name))
}

// unshared says that fewer devices of a kind have the same value of an attribute than have to
// share it, "" where there are enough. The value may be one of a list's.
func (n *node) unshared(
	claim *resourceapi.ResourceClaim, c resourceapi.DeviceConstraint, demands map[string]*demand,
) string {
	if c.MatchAttribute == nil {
		return ""
	}

	counts := map[string][]int64{}
	for _, request := range claim.Spec.Devices.Requests {
		if w := wantOf(request); w != nil && w.isHeldBy(c) {
			counts[w.key()] = append(counts[w.key()], w.count)
		}
	}

	for _, key := range slices.Sorted(maps.Keys(counts)) {
		d := demands[key]
		sharing := map[string][]OfferedDevice{}
		for _, device := range d.left {
			for _, value := range device.values(string(*c.MatchAttribute)) {
				sharing[value] = append(sharing[value], device)
			}
		}

		most, isEnough := int64(0), false
		for _, devices := range sharing {
			own, shared := n.supply(devices)
			most = max(most, own+shared)
			isEnough = isEnough || needed(counts[key], shared) <= own+shared
		}

		if !isEnough {
			return fmt.Sprintf("at most %d of %d %s have the same %s, %d needed", most,
				len(d.left), d.kind(), *c.MatchAttribute, needed(counts[key], 0))
		}
	}

	return ""
}

// needed returns how many devices requests need at least where some can be shared: one request gets
// each of these once, and all may get the same.
func needed(counts []int64, shared int64) int64 {
	total := shared
	for _, count := range counts {
		total += max(count-shared, 0)
	}
	return total
}

// supply counts devices: functions of one claim, and devices that several may share.
func (n *node) supply(devices []OfferedDevice) (own, shared int64) {
	known := map[deviceID]bool{}
	for _, d := range devices {
		if known[d.id] {
			continue
		}

		known[d.id] = true
		for _, twin := range n.twins[d.id] {
			known[twin] = true
		}

		if d.isShared() {
			shared++
		} else {
			own++
		}
	}

	return own, shared
}

// kind names the devices that are wanted, for messages.
func (w *want) kind() string {
	kind := w.class
	for _, s := range w.selectors {
		kind += " with " + ptr.Deref(s.CEL, resourceapi.CELDeviceSelector{}).Expression
	}
	return kind
}

// wantOf returns what a request wants; nil where that is one of several alternatives, or takes
// nothing: only the allocator knows.
func wantOf(request resourceapi.DeviceRequest) *want {
	all := alternatives(request)
	if len(all) != 1 || all[0].AdminAccess != nil {
		return nil
	}

	r := all[0]
	w := &want{
		name: request.Name, class: r.DeviceClassName, selectors: r.Selectors,
		tolerations: r.Tolerations,
		capacity:    ptr.Deref(r.Capacity, resourceapi.CapacityRequirements{}).Requests,
	}
	for _, a := range r.DerivedAttributes {
		w.derived = append(w.derived, string(a.Name))
	}
	if r.AllocationMode != resourceapi.DeviceAllocationModeAll {
		w.count = r.Count
	}

	return w
}
