package host

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path"
	"slices"
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
	if ReadCapabilities(d, []byte(config)); !d.ExtendedConfig {
		r.readListed(d, dir)
	}
}

// The conventional capabilities of a function (include/uapi/linux/pci_regs.h): the first is at the
// offset that a byte names, each has its ID and then the offset of the next.
const (
	firstCapability   = 0x34
	headerBytes       = 0x40 // of the configuration space, before all capabilities
	capabilityExpress = 0x10
	linkOffset        = 0x0c // Link Capabilities
	device2Offset     = 0x24 // Device Capabilities 2
	control2Offset    = 0x28 // Device Control 2
	blocksAtomics     = 0x80 // in it, AtomicOp Egress Blocking
	expressBytes      = 0x3c
)

// ReadMaxLink reads the fastest link that a function supports from its configuration space; nil
// where that has none or is too short.
func ReadMaxLink(config []byte) *topology.Link {
	capability := express(config)
	if capability == nil {
		return nil
	}

	link := binary.LittleEndian.Uint32(capability[linkOffset:])
	speeds := []float64{0, 2.5, 5, 8, 16, 32, 64} // by the code of bits 0 to 3
	code, width := int(link&0xf), int(link>>4&0x3f)
	if code == 0 || code >= len(speeds) || width == 0 || width > maxLinkWidth {
		return nil
	}

	return &topology.Link{Speed: speeds[code], Width: width}
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
	longestCapability = 8
)

// ReadCapabilities reads ACS, ATS and AtomicOps from a function's configuration space, if all of it
// is there.
func ReadCapabilities(d *topology.Details, config []byte) {
	// Without CAP_SYS_ADMIN the kernel shows 64 bytes (drivers/pci/pci-sysfs.c, pci_read_config),
	// which prove nothing about capabilities.
	if len(config) < extendedBytes {
		return
	}

	d.ExtendedConfig = true
	if capability := express(config); capability != nil {
		register := binary.LittleEndian.Uint32(capability[device2Offset:])
		d.AtomicOps = new(topology.AtomicOps(register) & topology.AllAtomics)
		control := binary.LittleEndian.Uint16(capability[control2Offset:])
		d.BlocksAtomics = new(control&blocksAtomics != 0)
	}

	// An offset of 0 ends the list. That of a broken device may lead back into itself, or out of
	// the space.
	seen := map[int]bool{}
	for at := configBytes; at >= configBytes && at <= extendedBytes-longestCapability &&
		!seen[at]; {
		seen[at] = true
		header := binary.LittleEndian.Uint32(config[at:])
		switch header & 0xffff {
		case capabilityACS:
			d.ACS = &topology.ACS{
				Capable: acsBits(binary.LittleEndian.Uint16(config[at+capableOffset:])),
				Control: acsBits(binary.LittleEndian.Uint16(config[at+controlOffset:])),
			}

		case capabilityATS:
			d.ATS = true
		}

		at = int(header >> 20)
	}
}

// express returns the PCI Express capability in a configuration space, nil for none.
func express(config []byte) []byte {
	if len(config) < configBytes {
		return nil
	}

	// The two lowest bits of an offset are reserved. A list may lead back into itself here, too.
	seen := map[int]bool{}
	for at := int(config[firstCapability]) &^ 3; at >= headerBytes && !seen[at]; {
		seen[at] = true
		if config[at] == capabilityExpress && at+expressBytes <= configBytes {
			return config[at : at+expressBytes]
		}
		at = int(config[at+1]) &^ 3
	}

	return nil
}

// acsBits returns the bits of an ACS register without what else it has: the capability register
// has the size of the egress control vector.
func acsBits(register uint16) topology.ACSBits {
	const all = topology.DirectTranslated<<1 - 1
	return topology.ACSBits(register) & all
}

// listedFile is a file of snapshots only, in place of the extended configuration
// space, which has the device's serial number: one line for each capability that
// ReadCapabilities knows. It is empty where the function has none of them.
//
//	acs 0x005f 0x001d
//	ats
//	atomics 0x0040 0x0000
//
// The second number of atomics is Egress Blocking of Device Control 2, which earlier releases left
// out.
const listedFile = "extended_capabilities"

// list returns the content of listedFile.
func list(d *topology.Details) string {
	var lines strings.Builder
	if a := d.ACS; a != nil {
		fmt.Fprintf(&lines, "acs %#04x %#04x\n", uint16(a.Capable), uint16(a.Control))
	}

	if d.ATS {
		lines.WriteString("ats\n")
	}

	if a := d.AtomicOps; a != nil {
		fmt.Fprintf(&lines, "atomics %#04x", uint32(*a))
		if blocks := d.BlocksAtomics; blocks != nil {
			fmt.Fprintf(&lines, " %#04x", map[bool]uint16{true: blocksAtomics}[*blocks])
		}
		lines.WriteString("\n")
	}

	return lines.String()
}

// readListed reads listedFile.
func (r *hostReader) readListed(d *topology.Details, dir string) {
	text, err := r.tree.file(dir + "/" + listedFile)
	if err != nil {
		return
	}

	// That there is a file says that the registers were read: what it does not list, the function
	// lacks.
	d.ExtendedConfig = true

	for line := range strings.Lines(text) {
		var first, second uint16
		switch name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "acs":
			if n, _ := fmt.Sscanf(line, "acs %v %v", &first, &second); n == 2 {
				d.ACS = listedACS(acsBits(first), acsBits(second))
			}
		case "ats":
			d.ATS = true
		case "atomics":
			n, _ := fmt.Sscanf(line, "atomics %v %v", &first, &second)
			if n > 0 {
				d.AtomicOps = new(topology.AtomicOps(first) & topology.AllAtomics)
			}
			if n > 1 {
				d.BlocksAtomics = new(second&blocksAtomics != 0)
			}
		}
	}
}

// listedACS returns the ACS of a snapshot. Snapshots used to keep RR of what a port can control, and
// RR, CR and EC of what it does. Every port with ACS can validate sources (PCI Express 5.0,
// 6.12.1.1), so the registers of one that cannot are incomplete.
func listedACS(capable, control topology.ACSBits) *topology.ACS {
	return &topology.ACS{
		Capable: capable, Control: control, Partial: !capable.Has(topology.SourceValidation),
	}
}

// modaliasFile names the CPUs' vendor, family and model, and their features. Any user may read it
// (drivers/base/cpu.c, print_cpu_modalias; x86's form is CPU_FEATURE_TYPEFMT in
// arch/x86/include/asm/cpufeature.h).
//
//	cpu:type:x86,ven0002fam0019mod0011:feature:,0000,0001…
const modaliasFile = "modalias"

// cpu reads the model of the CPUs; the zero CPU if sysfs does not show it. A snapshot of before it
// was kept tells AMD's by the vendor of a root port. Grace shows in its root ports alone, since
// modalias has no model of Arm's CPUs.
func (r *hostReader) cpu() topology.CPU {
	kind, _ := strings.CutPrefix(r.file(path.Join(cpusDir, modaliasFile)), "cpu:type:")
	kind, _, _ = strings.Cut(kind, ":")
	arch, model, _ := strings.Cut(kind, ",")
	cpu := topology.CPU{Arch: arch}
	if n, err := fmt.Sscanf(model, "ven%4xfam%4x", &cpu.Vendor, &cpu.Family); n != 2 ||
		err != nil {
		cpu.Vendor, cpu.Family = 0, 0
	}

	if cpu.Arch == "" || cpu.Arch == "aarch64" {
		arch := cpu.Arch
		cpu = topology.CPUOfRootPort(r.rootPort())
		cpu.Arch = arch
	}

	return cpu
}

// rootPort returns the ids of the root port above the first of the devices that were read.
func (r *hostReader) rootPort() (vendor, device uint16) {
	for _, a := range slices.SortedFunc(maps.Keys(r.devices), topology.Address.Compare) {
		if d := r.devices[a]; d != nil && len(d.Bridges) > 0 {
			dir, isShown := r.deviceDir(pciDevices + "/" + d.Bridges[0].String())
			if !isShown || dir == "" {
				return 0, 0
			}
			return uint16(r.hex(dir+"/vendor", 16)), uint16(r.hex(dir+"/device", 16))
		}
	}

	return 0, 0
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
