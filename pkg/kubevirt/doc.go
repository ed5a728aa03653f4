// Package kubevirt reads KubeVirt's objects and what virt-launcher logs: the part of a
// VirtualMachineInstance that placement needs, where it runs, the state and the volumes of a VM and
// its VMI, what an installation has, and the domain in a log. It logs nothing.
package kubevirt
