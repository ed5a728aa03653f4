// Package kubevirt tests the built program against KubeVirt's own code: its hook
// manager, its domain types and its plugin pipeline, imported from the release
// as a library. The module is one of its own, so that none of that reaches the
// product's go.mod.
//
// What is not imported: virtwrap and virtwrap/network make the calls of a boot,
// and virtwrap/converter counts devices, but all three link libvirt's cgo
// binding. The order of the calls is written out in boot_test.go after
// virtwrap/manager.go, allocateHotplugPorts; the counts are those of
// hook-sidecar/test/readback.
package kubevirt
