package fit

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// results are the devices that a VM gets, with the requests that they are for.
type results []resourceapi.DeviceRequestAllocationResult

// allocate lets the scheduler's allocator allocate devices of pools to a VM's claims, beside what
// is taken. It returns them, or why it cannot.
func (n *node) allocate(
	ctx context.Context, claims []*resourceapi.ResourceClaim, pools []*pool, t taken,
) (results, string) {
	if why := n.obstacle(ctx, claims, t); why != "" {
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

	got, err := n.search(ctx, claims, published, t)
	switch {
	case err != nil:
		return nil, allocatorSays + err.Error()
	case len(got) > 0:
		return got, ""
	case slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool {
		return len(c.Spec.Devices.Constraints) > 0
	}):
		return nil, "no free devices meet the claim's constraints"
	}

	return nil, "the scheduler's allocator finds no free devices for the claim"
}

// allocatorSays begins what is the allocator's own error.
const allocatorSays = "the scheduler's allocator: "

// search allocates to a VM. The allocator does not know that two devices are one function. Where it
// gives both, the search goes on without the one, and then without the other.
func (n *node) search(
	ctx context.Context, claims []*resourceapi.ResourceClaim,
	published []*resourceapi.ResourceSlice, t taken,
) (results, error) {
	got, err := n.allocator.allocate(ctx, n.Fleet, n.Node, published, claims, t)
	given := results(got).requests()
	for _, r := range got {
		id := idOfResult(r)
		i := slices.IndexFunc(n.twins[id], func(twin deviceID) bool {
			_, isGiven := given[twin]
			return isGiven
		})
		if _, isGiven := given[id]; !isGiven || i < 0 {
			continue
		}

		for _, other := range []deviceID{n.twins[id][i], id} {
			without := t.clone()
			without.block(other)
			if got, err = n.search(ctx, claims, published, without); err != nil || len(got) > 0 {
				return got, err
			}
		}

		return nil, nil
	}

	return got, err
}

// local returns the pools of the node alone.
func (n *node) local() []*pool {
	return slices.DeleteFunc(slices.Clone(n.pools), (*pool).isShared)
}

// inUse returns what is taken of the node's pools, nothing if it is empty.
func (n *node) inUse(isEmpty bool) taken {
	t := newTaken()
	if !isEmpty {
		n.addUses(t)
	}
	return t
}

// addUses takes what claims have of the node's pools, of which other nodes may have devices that
// count on the same counters.
func (n *node) addUses(t taken) {
	for _, p := range n.pools {
		for _, u := range n.uses[p.key()] {
			n.take(results{u.result}, t)
		}
	}
}

// take takes what a VM gets. Of a function that is published as several devices it takes all.
func (n *node) take(got results, t taken) {
	for _, r := range got {
		t.add(r)
	}
	for id := range got.requests() {
		t.block(n.twins[id]...)
	}
}

// requests returns the requests that each device is for, without those that take nothing.
func (all results) requests() map[deviceID]string {
	requestsOf := map[deviceID]string{}
	for _, r := range all {
		id := idOfResult(r)
		switch {
		case ptr.Deref(r.AdminAccess, false):
		case requestsOf[id] == "":
			requestsOf[id] = r.Request
		default: // shares of a device
			requestsOf[id] += ", " + r.Request
		}
	}

	return requestsOf
}
