package fit

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// partitionNotes says which partitions VMs get on each node, in the order that leaves the most for
// others, and whether anything holds them to these.
func partitionNotes(nodes []Node, s Shape) (notes []string) {
	for _, n := range nodes {
		ids := topology.Map(n.order, func(p Partition) string { return fmt.Sprint(p.ID) })
		switch {
		case len(ids) == 1:
			notes = append(notes, fmt.Sprintf("node %s: the VM takes NVLink partition %s, which "+
				"leaves the most others whole", n.Name, ids[0]))

		case len(ids) > 1:
			notes = append(notes, fmt.Sprintf("node %s: the VMs take NVLink partition %s: in "+
				"this order the most others stay whole", n.Name, words.FirstOf(ids, 16, ", then ")))
		}
	}

	const most = 10
	switch more := len(notes) - most; {
	case len(notes) == 0:
		return nil
	case more > 0:
		notes = append(notes[:most], fmt.Sprintf("%d more nodes have partitions for such VMs; "+
			"--node NAME shows those of one", more))
	}

	switch {
	case len(s.Claims) == 0:
		return append(notes,
			"nothing holds a VM to these: kubelet gives any free GPUs, and with others than a "+
				"partition CUDA does not start (802)")

	case !holdsToPartition(s.Claims):
		return append(notes,
			fmt.Sprintf("the claim does not hold a VM to these: the scheduler may give other "+
				"GPUs, with which CUDA does not start (802); "+
				"a matchAttribute %sN does, where the driver publishes it", partitionAttribute))
	}

	return append(notes,
		"the claim holds a VM to a partition, but not to one of these: the scheduler takes the "+
			"first that it finds")
}

// holdsToPartition reports whether a claim has a constraint on the published attribute.
func holdsToPartition(claims []*resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(claims, func(claim *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Spec.Devices.Constraints,
			func(c resourceapi.DeviceConstraint) bool {
				return c.MatchAttribute != nil &&
					strings.HasPrefix(string(*c.MatchAttribute), partitionAttribute)
			})
	})
}
