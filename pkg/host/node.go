package host

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

const nodesDir = "devices/system/node"

// maxNode is the highest NUMA node of Linux: MAX_NUMNODES is at most 1024
// (arch/x86/Kconfig, NODES_SHIFT).
const maxNode = 1023

// numaNodes reads the online nodes; none when sysfs shows none.
func (r *hostReader) numaNodes() []topology.NUMANode {
	name := path.Join(nodesDir, "online")
	content := r.file(name)
	ids, err := topology.ParseIDs(content)
	if err != nil {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
		return nil
	}
	var nodes []topology.NUMANode
	for n := range ids.All() {
		id := parsed(r, name, strconv.Itoa(n), parseNode)
		if id == nil {
			break
		}
		node := topology.NUMANode{ID: *id}
		list := path.Join(nodesDir, fmt.Sprintf("node%d", n), "cpulist")
		if node.CPUs, err = topology.ParseIDs(r.file(list)); err != nil {
			r.problem(reasons.CodeBadSysfs, list, err.Error())
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// affinity reads the numa_node of a device. -1 and an absent file mean no affinity, and so
// does a node that is not online, which is a Problem.
func (r *hostReader) affinity(name string) topology.Affinity {
	content := r.file(name)
	if content == "-1" {
		return topology.Affinity{}
	}
	node := parsed(r, name, content, parseNode)
	if node == nil {
		return topology.Affinity{}
	}
	online := slices.ContainsFunc(r.nodes, func(known topology.NUMANode) bool { return known.ID == *node })
	if !online && len(r.nodes) > 0 {
		r.problem(reasons.CodeBadSysfs, name, fmt.Sprintf("NUMA node %d is not online", *node))
		return topology.Affinity{}
	}
	return topology.OnNode(*node)
}

func parseNode(text string) (topology.NodeID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > maxNode {
		return 0, fmt.Errorf("invalid NUMA node %q: must be between 0 and %d", topology.Abridge(text), maxNode)
	}
	return topology.NodeID(n), nil
}

// onNode returns the affinity to the node that a text names.
func onNode(text string) (topology.Affinity, error) {
	node, err := parseNode(text)
	return topology.OnNode(node), err
}
