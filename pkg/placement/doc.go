// Package placement decides where each passthrough device goes in the guest's
// PCI Express tree, and why. It is pure: New turns a domain, a host, environment
// variables, a VMI and a policy into a Plan, without I/O, XML, clock or log, and the order in
// which things are given does not change the outcome.
//
// It is a pipeline. Each stage is a function from values to values and changes
// none that it is given. A file uses those above it:
//
//	bus/          a guest's buses: tree, root bus, rules, budgets, predicted addresses
//	number/       wanted tree                      -> indexes, slots, bus numbers
//	cells/        memory and vCPUs                 -> the guest's cell of a node of the host
//	request/      domain, variables, VMI           -> hostdevs that the domain lacks
//	inventory.go  domain, host, request            -> devices
//	unmoved.go    domain, changed domain           -> what libvirt would put elsewhere
//	beside.go     domain, changed domain           -> what QEMU's own arguments collide with
//	hotplug.go    domain, policy                   -> root ports to keep free
//	start.go      all of these                     -> the common input of all layouts
//	decide.go     devices, cells                   -> decisions
//	layout.go     decisions, host's tree           -> the tree that is wanted
//	machine.go    devices, a tree                  -> the NIC that NCCL takes for each GPU
//	cpu.go        host, domain                     -> the CPUs as consumers see them
//	switchports.go domain, devices                 -> why no switch port gets a link
//	proposal.go   decisions, wanted tree           -> the proposal of a layout
//	compare.go    current tree, proposal           -> is it as good already
//	choose.go     proposals, with auto             -> the layout
//	place.go      these stages and number in turn  -> changes, checked by bus
//	plan.go       all of it                        -> the plan
//	gpudirect.go  host and plan                    -> what NCCL decides
package placement
