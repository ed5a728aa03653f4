// Package testdata carries the samples that the demo command runs on.
package testdata

import "embed"

// Demo holds a domain and its VMI as KubeVirt makes them, eight GPUs and eight
// NICs on two sockets, and the snapshot of a host to match.
//
//go:embed samples/02-8gpu-8nic-gate-off.xml samples/02-8gpu-8nic-gate-off.vmi.json hosts/x86-2n8g-hgx-h100.txtar
var Demo embed.FS

// The files of Demo.
const (
	DemoDomain = "samples/02-8gpu-8nic-gate-off.xml"
	DemoVMI    = "samples/02-8gpu-8nic-gate-off.vmi.json"
	DemoHost   = "hosts/x86-2n8g-hgx-h100.txtar"
)
