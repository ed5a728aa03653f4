package fit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// wanted is a number of devices per kind of request.
type wanted map[string]int

func (w wanted) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(w)) {
		if w[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", w[kind], kind))
		}
	}
	return strings.Join(parts, " and ")
}

// obstacle returns why the free devices cannot meet a claim, "" where they may. The allocator
// gives no cause, and searches exhaustively where it cannot succeed. This only counts: it
// refuses nothing that the allocator would allocate.
func (n *node) obstacle(ctx context.Context, claim *resourceapi.ResourceClaim, state structured.AllocatedState) string {
	total, requests, free := wanted{}, map[string]wanted{}, map[string][]*device{}
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil || r.Exactly.AdminAccess != nil || r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
			return "" // only the allocator knows
		}
		kind := kind(r.Exactly)
		total[kind] += int(max(r.Exactly.Count, 1))
		requests[r.Name] = wanted{kind: int(max(r.Exactly.Count, 1))}
		if free[kind] != nil {
			continue
		}
		for _, d := range n.takes(ctx, r.Exactly) {
			if d.AllowMultipleAllocations != nil {
				return ""
			}
			if !structured.IsDeviceAllocated(d.id, &state) {
				free[kind] = append(free[kind], d)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(total)) {
		if len(free[kind]) < total[kind] {
			return fmt.Sprintf("%d %s are free, and %d are needed", len(free[kind]), kind, total[kind])
		}
	}
	return unmatched(claim.Spec.Devices.Constraints, requests, free)
}

// alike are constraints that want the same devices with one value of the same attribute.
type alike struct {
	attribute string
	wanted    wanted
	times     int
}

// unmatched returns which constraints the devices cannot meet, each by itself.
func unmatched(constraints []resourceapi.DeviceConstraint, requests map[string]wanted, free map[string][]*device) string {
	var all []alike
	seen := map[string]bool{}
	for _, c := range constraints {
		if c.MatchAttribute == nil {
			continue // distinct values: only the allocator knows
		}
		next, isNew := alike{attribute: string(*c.MatchAttribute), wanted: wanted{}, times: 1}, true
		if len(c.Requests) == 0 {
			c.Requests = slices.Collect(maps.Keys(requests))
		}
		for _, name := range c.Requests {
			for kind, count := range requests[name] {
				next.wanted[kind] += count
			}
			isNew = isNew && !seen[next.attribute+name]
			seen[next.attribute+name] = true
		}
		i := slices.IndexFunc(all, func(a alike) bool { return a.attribute == next.attribute && maps.Equal(a.wanted, next.wanted) })
		switch {
		case i < 0:
			all = append(all, next)
		case isNew: // two that share a request may share its device
			all[i].times++
		}
	}
	for _, a := range all {
		if why := a.unmet(free); why != "" {
			return why
		}
	}
	return ""
}

// unmet returns why free devices do not meet the constraints.
func (a alike) unmet(free map[string][]*device) string {
	perValue := map[string]wanted{}
	for kind := range a.wanted {
		isPublished := false
		for _, d := range free[kind] {
			for _, v := range d.values(a.attribute) {
				if perValue[v] == nil {
					perValue[v] = wanted{}
				}
				perValue[v][kind]++
				isPublished = true
			}
		}
		if !isPublished {
			return fmt.Sprintf("%s has no %s%s", kind, a.attribute, otherName(free[kind][0], a.attribute))
		}
	}
	total, most := 0, 0
	for _, have := range perValue {
		times := 0
		for i, kind := range slices.Sorted(maps.Keys(a.wanted)) {
			if n := have[kind] / a.wanted[kind]; i == 0 || n < times {
				times = n
			}
		}
		total, most = total+times, max(most, times)
	}
	switch {
	case most == 0:
		return fmt.Sprintf("no %s has %s free", a.attribute, a.wanted)
	case total < a.times:
		return fmt.Sprintf("%d times %s with one %s are needed, and %d times they are free", a.times, a.wanted, a.attribute, total)
	}
	return ""
}

// otherName says under which name a driver publishes the thing instead.
func otherName(d *device, attribute string) string {
	_, id, _ := strings.Cut(attribute, "/")
	for _, ids := range [][]string{rootIDs(), numaIDs()} {
		if names := d.names(ids); slices.Contains(ids, id) && len(names) > 0 {
			return fmt.Sprintf(", its driver publishes %s: matchAttribute compares one name", names[0])
		}
	}
	return ""
}
