package matrix

import "hook-sidecar/test/tree"

// Spot is the place of a device in a PCI Express tree.
type Spot = tree.Spot

// Class is the path type of two devices.
func Class(a, b Spot) string { return tree.PathType(a, b) }
