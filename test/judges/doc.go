// Package judges asks other people's own code about the PCI tree of hosts and guests, and compares
// what it decides with the models of pkg/consumers: UCX's library (libucs) and hwloc's lstopo of
// Debian testing, and Kubernetes' DRA (k8s.io/dynamic-resource-allocation, the version in go.mod).
// NCCL's is asked by package nccl, and Linux, about peer-to-peer DMA, by TestPeers of package boot.
//
// Each reads a /sys that package sys writes. `make judges` runs it; nothing of theirs is here.
package judges
