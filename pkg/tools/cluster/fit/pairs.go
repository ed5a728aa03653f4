package fit

import (
	"cmp"
	"fmt"
	"strings"

	"hook-sidecar/pkg/topology"
)

// PathCounts are numbers of pairs of devices by path type.
type PathCounts map[topology.PathType]int

// String lists the pairs, the nearest first.
func (p PathCounts) String() string {
	var parts []string
	for t := topology.PIX; t <= topology.SYS; t++ {
		if p[t] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p[t], t))
		}
	}

	return cmp.Or(strings.Join(parts, ", "), "-")
}

// distance returns the sum of the path types.
func (p PathCounts) distance() int {
	sum := 0
	for t, count := range p {
		sum += int(t) * count
	}
	return sum
}

func pairs(tree *topology.Tree, ids []topology.DeviceID) PathCounts {
	p := PathCounts{}
	for i, a := range ids {
		for _, b := range ids[:i] {
			p[tree.PathType(a, b)]++
		}
	}

	return p
}
