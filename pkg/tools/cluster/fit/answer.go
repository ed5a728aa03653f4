package fit

import "hook-sidecar/pkg/policy"

// Answer says how often a VM fits.
type Answer struct {
	// 2; it rises when a field is removed or changes its meaning
	SchemaVersion int    `json:"schemaVersion"`
	VM            string `json:"vm"` // its name
	// how many such VMs fit beside what runs; a device that several nodes reach counts once
	Now   int    `json:"now"`
	Empty int    `json:"empty"` // how many would if nothing ran
	Nodes []Node `json:"nodes"` // by name
	// what was not counted or read, and why the claim is not stricter
	Notes []string `json:"notes"`
	// the version as which the allocator acts, and what says that it is the cluster's; "" of a VM
	// without claims
	Kubernetes string `json:"kubernetes"`
}

// Node is the answer for a node.
type Node struct {
	Name  string `json:"name"`  // of the node
	Now   int    `json:"now"`   // how many such VMs fit beside what runs
	Empty int    `json:"empty"` // how many would if nothing ran
	// pairs of the devices of the next VM, by path type; of the first on the empty node where
	// none fits now
	Pairs  PathCounts    `json:"pairs"`
	Layout policy.Layout `json:"layout"` // that the hook would choose for them; "" without any
	// their pairs in a guest of that layout, with a NUMA cell per NUMA node
	Guest PathCounts `json:"guest"`
	// what kubelet may give of device plugins' resources; null where the node's host was not
	// read, or too few are free
	Plugins *Bounds         `json:"plugins"`
	Why     string          `json:"why"`     // why none fits now; "" where one does
	Devices []OfferedDevice `json:"devices"` // by NUMA node and PCIe root

	// NVLink partitions of its GPUs, as far as they are known
	Partitions []Partition `json:"partitions"`

	order         []Partition // that the VMs get which fit now
	gpusOfUnknown int         // GPUs of a VM that have to be a partition, where none is known
}
