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
	total, requests, free := wanted{}, map[string]wanted{}, map[string][]Device{}
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil || r.Exactly.AdminAccess != nil || r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll {
			return "" // only the allocator knows
		}
		kind := kind(r.Exactly)
		total[kind] += int(r.Exactly.Count)
		requests[r.Name] = wanted{kind: int(r.Exactly.Count)}
		if free[kind] != nil {
			continue
		}
		for _, d := range n.takes(ctx, r.Exactly) {
			if d.published.AllowMultipleAllocations != nil {
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
	for _, c := range claim.Spec.Devices.Constraints {
		if c.MatchAttribute == nil {
			continue // distinct values: only the allocator knows
		}
		if len(c.Requests) == 0 {
			c.Requests = slices.Collect(maps.Keys(requests))
		}
		needed := wanted{}
		for _, name := range c.Requests {
			for kind, count := range requests[name] {
				needed[kind] += count
			}
		}
		if why := unmatched(string(*c.MatchAttribute), needed, free); why != "" {
			return why
		}
	}
	return ""
}

// unmatched returns why no value of the attribute has as many free devices as are needed.
func unmatched(attribute string, needed wanted, free map[string][]Device) string {
	values := map[string]wanted{}
	for _, kind := range slices.Sorted(maps.Keys(needed)) {
		isPublished := false
		for _, d := range free[kind] {
			for _, v := range d.values[attribute] {
				if values[v] == nil {
					values[v] = wanted{}
				}
				values[v][kind]++
				isPublished = true
			}
		}
		if !isPublished {
			return fmt.Sprintf("%s has no %s%s", kind, attribute, otherName(free[kind][0], attribute))
		}
	}
	for _, have := range values {
		isEnough := true
		for kind, count := range needed {
			isEnough = isEnough && have[kind] >= count
		}
		if isEnough {
			return ""
		}
	}
	return fmt.Sprintf("no %s has %s free", attribute, needed)
}

// otherName says under which name a driver publishes the thing instead.
func otherName(d Device, attribute string) string {
	for _, name := range slices.Sorted(maps.Keys(d.values)) {
		if meaning(name) == meaning(attribute) && meaning(name) != "" {
			return fmt.Sprintf(", its driver publishes %s: matchAttribute compares one name", name)
		}
	}
	return ""
}
