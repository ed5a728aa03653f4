// Package placement decides where each passthrough device stands in the
// guest's PCI Express tree, and why. It is pure: New turns a domain, a host,
// allocations and a policy into a Plan, without I/O, XML, clock or log, and
// the order in which things are given does not change the outcome.
//
// The way through the package:
//
//	collect   devices of the domain, and those to add   collect.go, add.go
//	decide    may it move, which cell                    movable.go, cell.go
//	lay out   the tree that the layout wants             layout.go, mirror.go
//	compare   is that what stands there already          existing.go, rules.go
//	number    indexes, slots, bus numbers                number.go, busnumber.go
//	finish    hotplug ports, predicted addresses         hotplug.go, predict.go
package placement
