// Package api has KubeVirt's hook protocols, one directory per service: a .proto
// file that is compatible on the wire, and the code generated from it. The
// generated packages have no other code, so they can be imported without the
// server.
//
// The messages have KubeVirt's full protobuf names, because these are part of the
// method path. A binary that also links KubeVirt's own stubs (kubevirt.io/kubevirt
// pkg/hooks/info, …) may therefore panic at start with a registration conflict; a
// test that needs both has to run two processes.
//
// protoc has to be in $PATH. The plugins are pinned in tools/go.mod.
package api

//go:generate ./generate.sh
