// Package e2e runs the whole way of a device once: a machine with two NUMA
// nodes, PCIe switches, virtual functions and an IOMMU, all of it emulated,
// stands for a KubeVirt node. In it the program under test reads the real sysfs
// and answers on its socket, libvirt starts the domain with the real vfio-pci,
// and what the inner guest's kernel shows is compared with the plan and with
// the node's own sysfs.
//
// The outer machine runs under TCG, which emulates AMD's virtualization, so the
// inner one can use KVM and no hardware is needed.
package e2e
