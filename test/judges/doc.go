// Package judges asks other people's own code about the PCI tree of hosts and guests, and compares
// what it decides with the models of pkg/consumers: UCX's library (libucs) and hwloc's lstopo of
// Debian testing, and Kubernetes' DRA (k8s.io/dynamic-resource-allocation, the version in go.mod).
// rdma_topo of rdma-core is asked about the registers by which package peer judges the host's paths.
// NCCL's is asked by package nccl, and Linux, about peer-to-peer DMA, by TestPeers of package boot.
//
// Each reads a /sys that package sys writes, rdma_topo what its dump of a host would be. `make judges` runs it; nothing of theirs is here.
package judges
