// Package e2e tests everything that happens to a device, once: an emulated
// machine with two NUMA nodes, PCIe switches, virtual functions and an IOMMU is
// the KubeVirt node. On it the program under test reads the real sysfs and answers
// on its socket, libvirt starts the domain with the real vfio-pci, and what the
// inner guest's kernel shows is compared with the plan and with the node's own
// sysfs.
//
// The outer machine runs under TCG, which emulates AMD's virtualization, so that
// the inner one can use KVM. No hardware is needed.
package e2e
