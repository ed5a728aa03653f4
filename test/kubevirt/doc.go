// Package kubevirt tests the built program against KubeVirt's own code: its hook
// manager, its domain types and its plugin pipeline, imported from the release
// as a library. It is a module of its own, so that none of that reaches the
// product's go.mod.
//
// Three packages cannot be imported, since they link libvirt's cgo binding:
// virtwrap and virtwrap/network make the calls of a boot, and virtwrap/converter
// counts devices. boot_test.go has the order of the calls, after
// virtwrap/manager.go, allocateHotplugPorts; hook-sidecar/test/readback has the
// counts, the placeholders and the extra root ports.
package kubevirt
