// Package nccl runs the topology code of NCCL, compiled for the CPU, over the /sys of hosts and of
// the guests that the hook plans for them, and compares what it decides: which GPUs use GPUDirect
// RDMA and which NIC, rings, channels. Of RCCL it runs the parser of topology files: Debian's
// version is older than the code that decides.
//
// `get-nccl` fetches the sources, `build` compiles them; nothing of them is here.
// ncclgraph/main.cc stands for what that code asks of CUDA, NVML, the network plugin
// and the other ranks, and its stubs for their headers.
//
// Run by NCCL's own code (2.29.7): the walk up /sys (xml.cc, ncclTopoGetXmlFromSys), the graph of
// all ranks, paths and GPUDirect RDMA of each pair (paths.cc, ncclTopoCheckGdr), the NIC of each
// GPU (topo.cc, ncclTopoGetLocalNet), rings, trees and NVLS (search.cc), channels (connect.cc)
// and the model of algorithms and protocols (tuning.cc). The search counts steps, not seconds, so
// a result is always the same.
//
// Supplied to it:
//
//   - NVML: NVLinks end at a device that is not visible, which NCCL takes for an NVSwitch. Peer
//     access over PCIe is allowed on the host and refused in a guest without a clique.
//   - The network: one InfiniBand port per NIC, with GPUDirect RDMA. Ports and virtual functions
//     of a slot count as its function 0 (transport/net_ib/init.cc, ncclIbGetPciPath).
//   - A second machine, like the first.
//   - A guest's /sys (package sys): the domain as libvirt completes it, buses numbered by package
//     tree, links as QEMU's ports advertise them (TestPorts). Judge takes a guest that has booted.
package nccl
