// Package fit counts how often a VM with passthrough devices fits on each node of a cluster,
// and says how near to each other its devices would be. Devices of Dynamic Resource
// Allocation are allocated by the scheduler's own code (k8s.io/dynamic-resource-allocation,
// structured), so the answer is what the scheduler will do. fleet.go has what is read, node.go
// one node's part of it, count.go the counting, obstacle.go why a claim cannot be met,
// claim.go the claim for a shape. The package reads no cluster and writes none.
package fit
