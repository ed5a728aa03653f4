// Package kubevirt tests the built program against KubeVirt's own code: its hook
// manager, its domain types and its plugin pipeline, imported from the release
// as a library. It is a module of its own, so that none of that reaches the
// product's go.mod.
//
// A whole boot is with virt-launcher itself, in hook-sidecar/test/launcher. Here is what
// that does not meet: versions of the hooks before v1alpha3, several sidecars, a plugin
// with an mdev or beside another Plugin, a migration's target, and what KubeVirt does
// to a VM without cloud-init.
package kubevirt
