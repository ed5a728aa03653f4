package host

import (
	"encoding/binary"
	"fmt"
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

const cpusDir = "devices/system/cpu"

// details reads the details of a function.
func (r *hostReader) details(dir string) *topology.Details {
	d := &topology.Details{
		SubsystemVendor: uint16(r.hex(dir+"/subsystem_vendor", 16)),
		SubsystemDevice: uint16(r.hex(dir+"/subsystem_device", 16)),
		Link:            r.link(dir, "current"),
	}

	reset := dir + "/reset_method"
	if _, err := r.tree.entry(reset); err == nil {
		d.ResetKnown, d.ResetMethods = true, strings.Fields(r.file(reset))
	}

	r.extended(d, dir)
	d.MDEVTypes, d.VGPU = r.mdevTypes(dir), r.vgpu(dir)
	return d
}

// link reads the current or the maximum link of a function; nil when the files are absent
// or the kernel does not know the link, as for a function in the root complex
// (drivers/pci/pci-sysfs.c, "Unknown" or a width of 0).
func (r *hostReader) link(dir, which string) *topology.Link {
	lanes, err := strconv.ParseUint(r.file(path.Join(dir, which+"_link_width")), 10, 8)
	if err != nil || lanes == 0 || lanes > maxLinkWidth {
		return nil
	}

	name := path.Join(dir, which+"_link_speed")
	text := r.file(name)
	if strings.HasPrefix(text, "Unknown") {
		return nil
	}

	speed := parsed(r, name, text, topology.ParseLinkSpeed)
	if speed == nil {
		return nil
	}

	return &topology.Link{Speed: *speed, Width: int(lanes)}
}

// maxLinkWidth is the widest link of PCI Express (5.0, 7.5.3.6). The kernel prints 255 for
// a maximum that it cannot read.
const maxLinkWidth = 32

// extended reads the extended capabilities of a function.
func (r *hostReader) extended(d *topology.Details, dir string) {
	config, err := r.tree.raw(dir + "/config")
	r.check(dir+"/config", err)
	if readCapabilities(d, []byte(config)); !d.ExtendedConfig {
		r.readListed(d, dir)
	}
}

// Extended capabilities (include/uapi/linux/pci_regs.h) follow the 256 bytes of
// conventional PCI. The header of one has its ID in bits 0 to 15 and the offset of the next
// in bits 20 to 31.
const (
	configBytes       = 256
	extendedBytes     = 4096
	capabilityACS     = 0x000d
	capabilityATS     = 0x000f
	capableOffset     = 4
	controlOffset     = 6
	acsRequest        = 1 << 2
	acsCompletion     = 1 << 3
	acsEgress         = 1 << 5
	longestCapability = 8
)

// readCapabilities reads ACS and ATS from a function's configuration space.
func readCapabilities(d *topology.Details, config []byte) {
	if len(config) < extendedBytes {
		return
	}

	d.ExtendedConfig = true
	seen := map[int]bool{}
	for at := configBytes; at >= configBytes && at <= extendedBytes-longestCapability &&
		!seen[at]; {
		seen[at] = true
		header := binary.LittleEndian.Uint32(config[at:])
		switch header & 0xffff {
		case capabilityACS:
			d.ACS = newACS(binary.LittleEndian.Uint16(config[at+capableOffset:]),
				binary.LittleEndian.Uint16(config[at+controlOffset:]))
		case capabilityATS:
			d.ATS = true
		}

		at = int(header >> 20)
	}
}

func newACS(capable, control uint16) *topology.ACS {
	return &topology.ACS{
		CanRedirect:        capable&acsRequest != 0,
		RequestRedirect:    control&acsRequest != 0,
		CompletionRedirect: control&acsCompletion != 0,
		EgressControl:      control&acsEgress != 0,
	}
}

// listedFile is a file of snapshots only, in place of the extended configuration
// space, which has the device's serial number: one line for each capability that
// readCapabilities knows. It is empty where the function has none of them.
//
//	acs 0x005f 0x001d
//	ats
const listedFile = "extended_capabilities"

// list returns the content of listedFile.
func list(d *topology.Details) string {
	var lines strings.Builder
	if a := d.ACS; a != nil {
		fmt.Fprintf(&lines, "acs %#04x %#04x\n", bit(a.CanRedirect, acsRequest),
			bit(a.RequestRedirect, acsRequest)|bit(a.CompletionRedirect,
				acsCompletion)|bit(a.EgressControl, acsEgress))
	}

	if d.ATS {
		lines.WriteString("ats\n")
	}

	return lines.String()
}

func bit(on bool, mask uint16) uint16 {
	if on {
		return mask
	}
	return 0
}

// readListed reads listedFile.
func (r *hostReader) readListed(d *topology.Details, dir string) {
	text, err := r.tree.file(dir + "/" + listedFile)
	if err != nil {
		return
	}

	d.ExtendedConfig = true

	for line := range strings.Lines(text) {
		var capable, control uint16
		switch n, _ := fmt.Sscanf(line, "acs %v %v", &capable, &control); {
		case n == 2:
			d.ACS = newACS(capable, control)
		case strings.TrimSpace(line) == "ats":
			d.ATS = true
		}
	}
}

// packageFile holds the package of a CPU
// (Documentation/ABI/stable/sysfs-devices-system-cpu).
const packageFile = "physical_package_id"

// packages counts the CPU packages; 0 when sysfs does not show them.
func (r *hostReader) packages() int {
	found := map[string]bool{}
	for _, cpu := range r.cpus() {
		id := r.file(path.Join(cpusDir, cpu, "topology", packageFile))
		if id != "" && id != "-1" {
			found[id] = true
		}
	}

	return len(found)
}

// cpus returns the names of the CPU directories: "cpu0".
func (r *hostReader) cpus() []string {
	var names []string
	for _, name := range r.entries(cpusDir) {
		digits, isCPU := strings.CutPrefix(name, "cpu")
		if _, err := strconv.ParseUint(digits, 10, 16); isCPU && err == nil {
			names = append(names, name)
		}
	}

	return names
}
