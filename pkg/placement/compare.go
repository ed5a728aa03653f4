package placement

import (
	"slices"

	"hook-sidecar/pkg/topology"
)

// managedTrees are the expander buses of a guest that hold a managed device and
// that nothing else in the domain refers to.
func managedTrees(g guest, managed deviceSet) []*topology.Node {
	referenced := g.referenced()
	return slices.DeleteFunc(slices.Clone(g.tree.Roots[1:]), func(expander *topology.Node) bool {
		return referenced[expander] || !managed.holdsAny(expander)
	})
}

// isAsWanted reports whether the managed devices are where the layout wants
// them, whoever put them there and whatever the numbers.
func isAsWanted(current guest, wanted *topology.Tree, managed deviceSet) bool {
	return topology.Equal(managedTrees(current, managed), wanted.Roots)
}
