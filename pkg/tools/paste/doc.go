// Package paste reads what a person copies out of a terminal on a machine, a guest or a host:
// tables, lists, trees, files and logs that tell of PCI devices. The programs are lspci, lstopo,
// nvidia-smi, rocm-smi, amd-smi, NCCL, RCCL, rdma_topo, virsh, the NIC's own tools, and this
// one (a snapshot of /sys).
//
// Read recognises formats by their content, whatever is around them: quotes, prompts, banners,
// colours. Each format has one reader, a function from the text to a Machine, in a file of its
// own; formats lists them. Where a text has several formats, join makes one Machine of their
// Machines.
//
// A Machine is the common value. Its functions are those of a topology.Host, so that Tree,
// FunctionAt and BestLink work as for a host whose /sys was read:
//
//   - A function whose address the text lacks has a stand-in, for which HasAddress is false. So
//     have bridges and PCIe roots that the text shows without a name; IsStandIn knows their roots.
//   - What the text lacks is the zero value: Vendor 0, Class 0, MaxLink nil, Root "" for a path
//     that is not known. KnowsNode tells a function without a NUMA node from one whose node is not
//     known.
//   - Names has what programs call a function: GPU0, mlx5_0.
//   - PathType is what the source says of a pair, or follows from the tree; Farthest says where
//     it ends.
//   - Notes says in sentences what was cut, guessed or contradictory.
package paste
