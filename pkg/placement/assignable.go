package placement

import "hook-sidecar/pkg/topology"

// Assignable reports whether the driver that a function of the host is bound to
// hands it to guests: a VFIO driver, or NVIDIA's own for a virtual function
// that is a vGPU.
func Assignable(f topology.Device) bool { return isVFIO(f.Driver) || isVGPU(f) }
