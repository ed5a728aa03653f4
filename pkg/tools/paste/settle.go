package paste

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// settle gives each function of a table a place in a tree in which path types are those of the
// table: NUMA nodes have roots, roots have switches, and switches of a switch have functions.
// Where NVLink hides how far two GPUs are apart, they are as far as the other pairs leave room
// for.
func (m *Machine) settle() {
	if len(m.types) == 0 {
		return
	}

	n := len(m.Functions)
	groups := map[topology.PathType][]int{}
	for _, farthest := range []topology.PathType{
		topology.PIX, topology.PXB, topology.PHB, topology.NODE,
	} {
		groups[farthest] = m.groups(farthest)
	}

	// Functions of one node are in one group now, so they can lend each other its number.
	m.shareNodes(groups[topology.NODE])

	count := 1 << 12 // of stand-ins, after those of devices
	bridges := map[[2]int]topology.Address{}
	bridge := func(kind, group int) topology.Address {
		key := [2]int{kind, group}
		if _, isMade := bridges[key]; !isMade {
			bridges[key] = matrixStandIn.address(count)
			count++
		}

		return bridges[key]
	}

	const outerPort, outer, innerPort, inner, port, own = 0, 1, 2, 3, 4, 5
	for i := range m.Functions {
		d := &m.Functions[i]
		d.Root = matrixStandIn.root(n + groups[topology.PHB][i])
		wide, near := groups[topology.PXB][i], groups[topology.PIX][i]
		if !isShared(groups[topology.PXB], i) { // alone under a root port
			d.Bridges = []topology.Address{bridge(own, i)}
			continue
		}

		d.Bridges = []topology.Address{bridge(outerPort, wide), bridge(outer, wide)}

		// Inner switches are needed only if the outer one has several near groups. Else the outer
		// one is theirs.
		if hasSeveral(groups[topology.PXB], groups[topology.PIX], wide) {
			d.Bridges = append(d.Bridges, bridge(innerPort, near), bridge(inner, near))
		}

		d.Bridges = append(d.Bridges, bridge(port, i))
	}
}

// groups returns the group of each function: two are in one if a chain of pairs up to a path type
// connects them.
func (m *Machine) groups(farthest topology.PathType) []int {
	group := make([]int, len(m.Functions))
	position := map[topology.Address]int{}
	for i, d := range m.Functions {
		group[i], position[d.Address] = i, i
	}

	find := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}

		return i
	}

	// The lower number stands for a group, so the result does not depend on the order of the map.
	for pair, between := range m.types {
		if between <= farthest {
			a, b := find(position[pair[0]]), find(position[pair[1]])
			group[max(a, b)] = min(a, b)
		}
	}

	if farthest == topology.NODE {
		m.joinNodes(group, find)
	}

	for i := range group {
		group[i] = find(i)
	}

	return group
}

// joinNodes puts functions of one known NUMA node into one group.
func (m *Machine) joinNodes(group []int, find func(int) int) {
	first := map[topology.NodeID]int{}
	for i, d := range m.Functions {
		node, known := d.Node.Node()
		if !known {
			continue
		}

		if at, isSeen := first[node]; isSeen {
			a, b := find(at), find(i)
			group[max(a, b)] = min(a, b)
		} else {
			first[node] = i
		}
	}
}

// shareNodes gives functions the NUMA node of the others of their group. Where the table has no
// nodes, but pairs that are on different ones, stand-ins keep these apart.
func (m *Machine) shareNodes(group []int) {
	nodes := map[int]topology.Affinity{}
	for i, d := range m.Functions {
		if d.Node != (topology.Affinity{}) {
			nodes[group[i]] = d.Node
		}
	}

	isFlat := !slices.ContainsFunc(group, func(g int) bool { return g != group[0] })
	for i := range m.Functions {
		d := &m.Functions[i]
		if m.KnowsNode(d) || isFlat && nodes[group[i]] == (topology.Affinity{}) {
			continue
		}

		// nvidia-smi never has the node of a NIC, so that of its group is as much as is known.
		if node, known := nodes[group[i]]; known {
			d.Node = node
			if d.IsNIC() {
				delete(m.nodeless, d.Address)
			}
		} else {
			d.Node = topology.OnNode(topology.NodeID(maxDevices + group[i]))
		}
	}
}

// isShared reports whether a function is not alone in its group.
func isShared(group []int, i int) bool {
	for j, g := range group {
		if j != i && g == group[i] {
			return true
		}
	}
	return false
}

// hasSeveral reports whether a wide group has several near ones.
func hasSeveral(wide, near []int, group int) bool {
	first := -1
	for i, g := range wide {
		switch {
		case g != group:
		case first < 0:
			first = near[i]
		case near[i] != first:
			return true
		}
	}

	return false
}
