// Package libvirt models what libvirt does by itself with a domain before QEMU
// sees it: the devices and controllers that it adds, and which of the devices
// without an address take a root port. It reads the model of pkg/domain and
// knows no XML and no policy.
package libvirt
