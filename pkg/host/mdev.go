package host

import (
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Directories of a PCI function: mdevTypes has its types of mediated device
// (Documentation/ABI/testing/sysfs-bus-vfio-mdev), vgpuDir is of NVIDIA's driver, on a
// virtual function (KubeVirt pkg/virt-handler/device-manager/common.go).
const (
	mdevTypes = "mdev_supported_types"
	vgpuDir   = "nvidia"
)

// mdevTypes reads a function's types of mediated device, and how many it can still create.
func (r *hostReader) mdevTypes(dir string) []topology.MDEVType {
	var types []topology.MDEVType
	for _, id := range r.entries(path.Join(dir, mdevTypes)) {
		typeDir := path.Join(dir, mdevTypes, id)
		available := typeDir + "/available_instances"
		types = append(types, topology.MDEVType{
			ID: id, Name: r.file(typeDir + "/name"),
			Max:       maxInstances(r.file(typeDir + "/description")),
			Available: parsed(r, available, r.file(available), parseNumber),
		})
	}

	return types
}

// maxInstances reads NVIDIA's description of a type, which ends in max_instance:
// "num_heads=4, frl_config=60, framebuffer=8192M, max_instance=2". It is 0 for
// another vendor's.
func maxInstances(description string) int {
	_, rest, _ := strings.Cut(description, "max_instance=")
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	if err != nil {
		return 0
	}

	return int(n)
}

// vgpu reads the vGPU types of a virtual function from NVIDIA's driver; nil without it.
func (r *hostReader) vgpu(dir string) *topology.VGPU {
	name := path.Join(dir, vgpuDir, "current_vgpu_type")
	current := parsed(r, name, r.file(name), parseNumber)
	if current == nil {
		return nil
	}

	v := &topology.VGPU{Type: *current}
	list := path.Join(dir, vgpuDir, "creatable_vgpu_types")
	for line := range strings.Lines(r.file(list)) {
		digits, name, _ := strings.Cut(line, ":")
		// Some releases of the driver begin with a line of titles.
		if id, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 31); err == nil {
			v.Creatable = append(v.Creatable, topology.VGPUType{
				ID: int(id), Name: strings.TrimSpace(name),
			})
		}
	}

	return v
}
