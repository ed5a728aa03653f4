package host

import (
	_ "embed"
	"strings"

	"hook-sidecar/pkg/topology"
)

// script prints a snapshot with the builtins of POSIX sh alone, so without readlink: a process per
// file would take seconds.
//
//go:embed script.sh
var script string

// Script returns a script for POSIX sh that prints a snapshot of the tree at root, such as
// /sys, for ParseSnapshot: of these devices with all that Read reads for them, or without
// devices of all. It is for a machine or a container without this program. A file that cannot be
// read is left out: without CAP_SYS_ADMIN the configuration space.
func Script(root string, ids []topology.DeviceID) string {
	var b strings.Builder
	for _, v := range []struct{ name, value string }{
		{"root", root},
		{"nodes_files", nodesFiles}, {"node_files", nodeFiles}, {"function_files", functionFiles},
		{"function_links", functionLinks},
		{"type_files", typeFiles}, {"vgpu_files", vgpuFiles}, {"mdev_links", mdevLinks},
		{"group_files", groupFiles}, {"iommu_kinds", iommuKinds}, {"iommu_files", iommuFiles},
		{"argument_names", argumentNames},
	} {
		b.WriteString(v.name + "=" + Quoted(v.value) + "\n")
	}

	b.WriteString("set --")
	for _, id := range ids {
		b.WriteString(" " + Quoted(id.String()))
	}

	return b.String() + "\n" + script
}

// Quoted returns a text as one word of sh.
func Quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
