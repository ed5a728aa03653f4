// Package placement decides where each passthrough device goes in the guest's
// PCI Express tree, and why. It is pure: New turns a domain, a host, environment
// variables, a VMI and a policy into a Plan, without I/O, XML, clock or log, and the order in
// which things are given does not change the outcome.
//
// It is a pipeline. Each stage is a function from values to values and changes
// none that it is given:
//
//	inventory.go  domain, variables, VMI       -> devices (requests.go, add.go, display.go)
//	decide.go     devices, cells of the guest  -> decisions (cell.go)
//	layout.go     decisions, host's tree       -> the tree that is wanted (mirror.go, wanted.go)
//	choose.go     all of these, with auto      -> the layout
//	compare.go    current tree, wanted tree    -> is it as good already
//	reserve.go    domain, policy               -> what the numbers have to leave room for
//	number.go     wanted tree, reservation     -> indexes, slots, bus numbers (busnumber.go)
//	check.go      the domain that results      -> violations of rules and budgets
//	place.go      these stages in turn, with root ports for hotplug (hotplug.go)
//	plan.go       all of it; predict.go, budgets.go and concerns.go ask the result
//	apply.go      the changed bytes, verified
//
// Under them are input.go, guest.go (a domain with its tree) and violation.go.
package placement
