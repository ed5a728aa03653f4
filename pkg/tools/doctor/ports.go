package doctor

import (
	"strings"

	"hook-sidecar/pkg/libvirt"
)

// hasPortHelp reports whether the VM's QEMU was asked for its switch ports.
func (in Inputs) hasPortHelp() bool { return in.PortHelp != "" }

// switchPorts checks whether the VM's QEMU has switch ports whose link can be set: without them
// port-speed=host keeps a VM with switches from starting. The property is of QEMU 10.0
// (hw/pci-bridge/cxl_upstream.c).
func switchPorts(in Inputs) []Result {
	if !strings.Contains(in.PortHelp, libvirt.SpeedProperty+"=") {
		return note("leave port-speed off in this cluster until its KubeVirt has QEMU 10.0; 1.8 has "+
			"10.1", "the QEMU of this VM has no switch ports with a link")
	}

	if in.Policy.PortSpeed == "host" {
		return pass("the QEMU of this VM has switch ports with a link, and port-speed is host")
	}

	return note("to show every consumer the host's switches, set --port-speed=host in the arguments "+
		"of the hook, for a cluster whose launchers are all of this image",
		"the QEMU of this VM has switch ports with a link, and port-speed is off")
}
