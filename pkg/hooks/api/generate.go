// Package api holds KubeVirt's hook protocols, one folder a version: the
// .proto file, written for this project to be compatible on the wire, and the
// code that is generated from it. The generated packages hold nothing else,
// so that they can be imported without the server.
//
// The messages have KubeVirt's full protobuf names, for those are part of the
// method path. A binary that links KubeVirt's own stubs (kubevirt.io/kubevirt
// pkg/hooks/info, …) beside these may therefore panic at start with a
// registration conflict; a test that needs both has to run them as two
// processes.
//
// protoc has to be in $PATH. The plugins are pinned in tools/go.mod.
package api

//go:generate ./generate.sh
