package fit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// given are the devices that VMs get, each with the request that it is for.
type given map[structured.DeviceID]string

// offer is what VMs may take of a node.
type offer struct {
	inUse   sets.Set[structured.DeviceID] // not these, to which fill adds what VMs get
	room    int                           // for so many VMs
	isEmpty bool                          // as if nothing ran
}

// fill lets the scheduler's allocator allocate the devices of pools to one VM after the other,
// until one gets none. Where they take GPUs of partitions, those of a VM are one.
func (n *node) fill(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool, o offer,
) counted {
	if n.takesGPUs(ctx, claims) {
		return n.fillPartitions(ctx, claims, pools, o)
	}

	c := counted{}
	for c.times < o.room {
		got, why := n.allocate(ctx, claims, pools, o.inUse)
		if why != "" {
			c.why = why
			return c
		}

		c.times++
		if c.times == 1 {
			c.first = got
		}
	}

	return c
}

// allocate lets the scheduler's allocator allocate devices of pools to a VM's claims, which are
// in use from then on. It returns them, or why it cannot.
func (n *node) allocate(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool,
	inUse sets.Set[structured.DeviceID],
) (given, string) {
	if why := n.obstacle(ctx, claims, inUse); why != "" {
		return nil, why
	}

	// The scheduler searches a node so long (k8s.io/kube-scheduler config/v1,
	// DynamicResourcesFilterTimeoutDefault).
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var published []*resourceapi.ResourceSlice
	for _, p := range pools {
		published = append(published, p.slices...)
	}

	state := structured.AllocatedState{AllocatedDevices: inUse}
	allocator, err := structured.NewAllocator(ctx, n.features, state, n.Fleet, published, n.cache)
	var results []resourceapi.AllocationResult
	if err == nil {
		results, err = allocator.Allocate(ctx, n.Node, claims)
	}

	switch {
	case err != nil:
		return nil, "the scheduler's allocator: " + err.Error()
	case len(results) > 0:
	case slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool {
		return len(c.Spec.Devices.Constraints) > 0
	}):
		return nil, "no free devices meet the claim's constraints"

	default:
		return nil, "the scheduler's allocator finds no free devices for the claim"
	}

	got := given{}
	for _, result := range results {
		maps.Copy(got, requests(&result))
	}

	inUse.Insert(slices.Collect(maps.Keys(got))...)
	return got, ""
}

// want is a request for devices of one kind.
type want struct {
	class       string
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	count       int64 // of them; 0 for all that there are
}

// wantOf returns what a request wants; nil where that is one of several alternatives, has derived
// attributes, or takes nothing: only the allocator knows.
func wantOf(request resourceapi.DeviceRequest) *want {
	r := request.Exactly
	switch {
	case r == nil && len(request.FirstAvailable) == 1:
		s := request.FirstAvailable[0]
		r = &resourceapi.ExactDeviceRequest{
			DeviceClassName:   s.DeviceClassName,
			Selectors:         s.Selectors,
			AllocationMode:    s.AllocationMode,
			Count:             s.Count,
			Tolerations:       s.Tolerations,
			DerivedAttributes: s.DerivedAttributes,
		}
	case r == nil || r.AdminAccess != nil:
		return nil
	}

	if len(r.DerivedAttributes) > 0 {
		return nil
	}

	w := &want{class: r.DeviceClassName, selectors: r.Selectors, tolerations: r.Tolerations}
	if r.AllocationMode != resourceapi.DeviceAllocationModeAll {
		w.count = r.Count
	}

	return w
}

// kind names the devices that are wanted, for messages.
func (w *want) kind() string {
	kind := w.class
	for _, s := range w.selectors {
		kind += " with " + ptr.Deref(s.CEL, resourceapi.CELDeviceSelector{}).Expression
	}
	return kind
}

// candidates returns the devices that match a request's selectors, by the scheduler's evaluation of
// them. A device whose selector fails to evaluate counts as a match; the allocator reports the
// error.
func (n *node) candidates(
	ctx context.Context, w *want, class *resourceapi.DeviceClass,
) []OfferedDevice {
	kind := w.kind()
	if found, isKnown := n.matching[kind]; isKnown {
		return found
	}

	selectors := slices.Concat(class.Spec.Selectors, w.selectors)
	fails := func(d OfferedDevice, s resourceapi.DeviceSelector) bool {
		selector := n.cache.GetOrCompile(ptr.Deref(s.CEL,
			resourceapi.CELDeviceSelector{}).Expression)
		if selector.Error != nil {
			return false
		}

		matches, _, err := selector.DeviceMatches(ctx, cel.Device{
			Driver: d.Driver, Attributes: d.published.Attributes, Capacity: d.published.Capacity,
		})

		return err == nil && !matches
	}

	var found []OfferedDevice
	for _, d := range n.devices {
		if d.published != nil &&
			!slices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
				return fails(d, s)
			}) {
			found = append(found, d)
		}
	}

	n.matching[kind] = found
	return found
}

// obstacle explains why claims cannot be met: too few devices of a kind that are free, untainted
// and of a complete pool, a matchAttribute that their driver does not publish, or of which too few
// have the same value; "" if neither. The allocator gives no cause, and searches exhaustively where
// it cannot succeed.
func (n *node) obstacle(
	ctx context.Context, claims []*resourceapi.ResourceClaim, inUse sets.Set[structured.DeviceID],
) string {
	needed := map[string]int64{}
	for _, claim := range claims {
		for _, request := range claim.Spec.Devices.Requests {
			if w := wantOf(request); w != nil {
				needed[w.kind()] += w.count
			}
		}
	}

	for _, claim := range claims {
		lefts := map[string][]OfferedDevice{}
		for _, request := range claim.Spec.Devices.Requests {
			w := wantOf(request)
			if w == nil {
				continue
			}

			class, err := n.Get(w.class)
			if err != nil {
				return err.Error()
			}

			all := n.candidates(ctx, w, class)
			left, obstacles := takable(all, w, inUse)
			if why := shortage(w, len(all), len(left), needed[w.kind()], obstacles); why != "" {
				return why
			}

			if why := unpublished(claim, request.Name, w, left); why != "" {
				return why
			}

			lefts[w.kind()] = left
		}

		for _, c := range claim.Spec.Devices.Constraints {
			if why := unshared(claim, c, lefts); why != "" {
				return why
			}
		}
	}

	return ""
}

// takable returns the devices that the allocator may take for a request, and what keeps it from
// the others beside their use.
func takable(
	all []OfferedDevice, w *want, inUse sets.Set[structured.DeviceID],
) (left []OfferedDevice, obstacles []string) {
	counts := map[string]int{}
	for _, d := range all {
		taints := taintsOf(d.published, w.tolerations)
		switch {
		case inUse.Has(d.id):
		case d.State == incomplete:
			counts[d.By]++
		case taints != "":
			counts["taint "+taints]++
		default:
			left = append(left, d)
		}
	}

	for _, obstacle := range slices.Sorted(maps.Keys(counts)) {
		obstacles = append(obstacles, fmt.Sprintf("%d not counted: %s", counts[obstacle], obstacle))
	}

	return left, obstacles
}

// shortage says that fewer devices are left than are needed, "" where there are enough.
func shortage(w *want, all, left int, needed int64, obstacles []string) string {
	var why string
	switch {
	case w.count == 0 && all == 0:
		why = fmt.Sprintf("there is no %s", w.kind())
	case w.count == 0 && left < all:
		why = fmt.Sprintf("%d of %d %s are free, and the request is for all", left, all, w.kind())
	case int64(left) < needed:
		why = fmt.Sprintf("%d of %d %s are free, %d needed", left, all, w.kind(), needed)
	default:
		return ""
	}

	return strings.Join(append([]string{why}, obstacles...), "; ")
}

// unpublished names an attribute that the devices of a request have to share and do not have.
func unpublished(
	claim *resourceapi.ResourceClaim, request string, w *want, left []OfferedDevice,
) string {
	for _, c := range claim.Spec.Devices.Constraints {
		if c.MatchAttribute == nil || !concerns(c, request) {
			continue
		}
		if isPublished, other := publishes(left, string(*c.MatchAttribute)); !isPublished {
			return fmt.Sprintf("%s has no %s%s", w.kind(), *c.MatchAttribute, other)
		}
	}

	return ""
}

// concerns reports whether a constraint is about a request; without any it is about all.
func concerns(c resourceapi.DeviceConstraint, request string) bool {
	return len(c.Requests) == 0 || slices.Contains(c.Requests, request)
}

// unshared says that fewer devices of a kind have the same value of an attribute than have to
// share it, "" where there are enough. The value may be one of a list's.
func unshared(
	claim *resourceapi.ResourceClaim, c resourceapi.DeviceConstraint,
	lefts map[string][]OfferedDevice,
) string {
	if c.MatchAttribute == nil {
		return ""
	}

	needed := map[string]int64{}
	for _, request := range claim.Spec.Devices.Requests {
		if w := wantOf(request); w != nil && concerns(c, request.Name) {
			needed[w.kind()] += w.count
		}
	}

	for _, kind := range slices.Sorted(maps.Keys(needed)) {
		counts := map[string]int64{}
		for _, d := range lefts[kind] {
			for _, value := range valuesOf(d, string(*c.MatchAttribute)) {
				counts[value]++
			}
		}

		if most := slices.Max(append(slices.Collect(maps.Values(counts)), 0)); most < needed[kind] {
			return fmt.Sprintf("at most %d of %d %s have the same %s, %d needed", most,
				len(lefts[kind]), kind, *c.MatchAttribute, needed[kind])
		}
	}

	return ""
}

// valuesOf returns the values of a device's attribute.
func valuesOf(d OfferedDevice, attribute string) (values []string) {
	for name, a := range d.published.Attributes {
		if qualify(string(name), d.Driver) != attribute {
			continue
		}

		switch {
		case a.StringValue != nil:
			values = append(values, *a.StringValue)
		case a.IntValue != nil:
			values = append(values, fmt.Sprint(*a.IntValue))
		case a.BoolValue != nil:
			values = append(values, fmt.Sprint(*a.BoolValue))
		case a.VersionValue != nil:
			values = append(values, *a.VersionValue)
		}

		values = append(values, a.StringValues...)
		values = append(values, a.VersionValues...)
		values = append(values, sprintAll(a.IntValues)...)
		values = append(values, sprintAll(a.BoolValues)...)
	}

	slices.Sort(values)
	return slices.Compact(values)
}

func sprintAll[T any](values []T) (texts []string) {
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value))
	}
	return texts
}

// qualify returns the full name of a driver's attribute.
func qualify(name, driver string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return driver + "/" + name
}

// publishes reports whether devices have an attribute, and under which other name they have the
// same thing.
func publishes(devices []OfferedDevice, attribute string) (isPublished bool, other string) {
	for _, d := range devices {
		for name := range d.published.Attributes {
			qualified := qualify(string(name), d.Driver)
			if qualified == attribute {
				return true, ""
			}

			if meaning(qualified) != isOther && meaning(qualified) == meaning(attribute) {
				other = ", its driver publishes " + qualified + ": matchAttribute compares one name"
			}
		}
	}

	return false, other
}

// taintsOf lists the taints of a device that keep the scheduler from it and that nothing tolerates.
func taintsOf(d *resourceapi.Device, tolerations []resourceapi.DeviceToleration) string {
	var found []string
	for _, t := range d.Taints {
		isHard := t.Effect == resourceapi.DeviceTaintEffectNoSchedule ||
			t.Effect == resourceapi.DeviceTaintEffectNoExecute
		isTolerated := slices.ContainsFunc(tolerations,
			func(toleration resourceapi.DeviceToleration) bool {
				return resourceclaim.ToleratesTaint(toleration, t)
			})

		if isHard && !isTolerated {
			value := ""
			if t.Value != "" {
				value = "=" + t.Value
			}
			found = append(found, fmt.Sprintf("%s%s:%s", t.Key, value, t.Effect))
		}
	}

	return strings.Join(found, ",")
}

// local returns the pools of the node alone.
func (n *node) local() []*pool {
	return slices.DeleteFunc(slices.Clone(n.pools), (*pool).isShared)
}

// inUse returns the devices of the node that are allocated, none if it is empty.
func (n *node) inUse(isEmpty bool) sets.Set[structured.DeviceID] {
	found := sets.New[structured.DeviceID]()
	for _, d := range n.devices {
		if d.State == used && !isEmpty {
			found.Insert(d.id)
		}
	}

	return found
}
