// Package cluster runs the hook in a Kubernetes cluster with KubeVirt, as a user has it: what
// `kubectl apply` of a VM with devices starts, its guest's own sysfs is compared with the plan,
// and kubectl's plugin reads it. All programs of Kubernetes and KubeVirt are built from their
// modules.
//
// Node "here" is this machine in namespaces of its own: the control plane and KubeVirt's
// operator, API and controller, at full speed. Node "node" is the emulated machine of
// hook-sidecar/test/e2e, with two NUMA nodes, switches, vfio-pci and /dev/kvm: virt-handler
// and the VMs. Between them is a tap. There is no kube-proxy and no DNS: the API server
// listens on the service's address, and --enable-aggregator-routing leads its calls to pods.
// Images are archives that containerd imports; the emulated node's are unpacked on this
// machine.
//
// No VM has UEFI: OVMF writes CR8, and with an interrupt pending for a guest in a guest QEMU then
// fails an assertion and the node is gone (helper_write_crN in target/i386/tcg/system/misc_helper.c
// calls cpu_interrupt without the lock that it takes; up to QEMU 11.1).
//
// Debian's libvirt and QEMU stand for KubeVirt's, and one image for all of its programs.
package cluster
