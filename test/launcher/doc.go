// Package launcher tests the hook with KubeVirt's real virt-launcher: built from its
// Go module, started as virt-controller starts it, beside hook-sidecar as in a pod,
// with a real libvirt and QEMU. KubeVirt's own client and notify server stand in for
// virt-handler. There is no cluster: the VMI is written as virt-api and
// virt-controller leave it, and the kubelet's part is done by the command in
// kubevirt/pod, which is in a module of its own, so that virt-launcher is built with
// the dependencies that KubeVirt names.
//
// Three modules that KubeVirt needs are not in every module proxy, and a launcher
// does not call them: kubevirt/stubs stands for libguestfs.org/libnbd (backups) and
// kubevirt.io/virt-template-* (an informer). With the tag libvirt_dlopen the binding
// to libvirt loads the library when it runs. Debian has no virtqemud; libvirtd is
// the same program with more drivers.
//
// `make launcher` runs pods on this machine, where no device can be passed through:
// a plain VM boots, and for one with eight GPUs libvirt is asked up to the point
// where it looks for the devices; with each version of the hooks, with two of them, with
// plugins, as a migration's target. `make launcher-e2e` runs them with vfio-pci in the
// machine of hook-sidecar/test/e2e. That the hook ends with its launcher takes Linux
// 6.5, in both.
package launcher
