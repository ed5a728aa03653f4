package fit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hook-sidecar/pkg/topology"
)

// Allocation lists the devices that a running pod got by its claims.
type Allocation struct {
	Claims map[topology.DeviceID]string // claim, request and driver, by device
	// the pairs that it could have with devices of these drivers that are free or its own; ""
	// where none are nearer
	Nearer string
}

// Given returns what claims gave to a pod on a node, which need not be among the objects.
func (f *Fleet) Given(name, namespace, pod string) Allocation {
	n := f.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	found := Allocation{Claims: map[topology.DeviceID]string{}}
	counts := map[string]int{}
	isPod := func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.Resource == "pods" && r.Name == pod
	}

	for i, d := range n.devices {
		for _, u := range d.uses {
			if u.claim.Namespace != namespace || d.Address == "" ||
				!slices.ContainsFunc(u.claim.Status.ReservedFor, isPod) {
				continue
			}

			name := cmp.Or(u.claim.Annotations[resourceapi.PodResourceClaimAnnotation],
				u.claim.Name)
			found.Claims[d.pci] = fmt.Sprintf("claim %s, request %s, driver %s", name,
				u.result.Request, d.Driver)
			counts[d.Driver]++
			n.devices[i].State = free // to be given another
		}
	}

	ids := slices.Collect(maps.Keys(found.Claims))
	bounds := n.bounds(counts)
	if now := pairs(n.host.Tree(ids), ids); bounds != nil &&
		bounds.Best.distance() < now.distance() {
		found.Nearer = fmt.Sprintf("%s in place of %s", bounds.Best, now)
	}

	return found
}
