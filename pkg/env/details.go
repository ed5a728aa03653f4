package env

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

const cpusDir = "devices/system/cpu"

// ReadDetails reads what diagnosis needs of a host beyond placement: of each of
// its PCI functions the Details, and the number of CPU packages. It is apart
// from ReadHost because a link's state is read from the device itself, which
// the kernel wakes for it, and a hook has no reason to.
func ReadDetails(fsys fs.FS, host *topology.Host) []Problem {
	r := newHostReader(fsys)
	r.problems = nil // ReadHost has told of what it lists
	for i := range host.Devices {
		d := &host.Devices[i]
		name, shown := r.pciNames[d.Address]
		if !shown {
			continue
		}
		if dir, ok := r.deviceDir(path.Join(pciDevices, name)); ok {
			d.Details = r.details(dir)
		}
	}
	host.Packages = r.packages()
	r.close()
	return sortProblems(r.problems)
}

func (r *hostReader) details(dir string) *topology.Details {
	d := &topology.Details{
		SubsystemVendor: uint16(r.hex(dir+"/subsystem_vendor", 16)),
		SubsystemDevice: uint16(r.hex(dir+"/subsystem_device", 16)),
		Link:            r.link(dir, "current"),
		MaxLink:         r.link(dir, "max"),
	}
	reset := dir + "/reset_method"
	if _, err := r.tree.entry(reset); err == nil {
		d.ResetKnown, d.ResetMethods = true, strings.Fields(r.file(reset))
	}
	config, err := r.tree.raw(dir + "/config")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(CodeBadSysfs, dir+"/config", err.Error())
	}
	readCapabilities(d, []byte(config))
	return d
}

// link reads one of a function's two pairs of link files; nil when it has none
// or the kernel does not know, as of a function within the root complex
// (drivers/pci/pci-sysfs.c, "Unknown" or a width of 0).
func (r *hostReader) link(dir, which string) *topology.Link {
	speed, width := path.Join(dir, which+"_link_speed"), path.Join(dir, which+"_link_width")
	text := r.file(speed)
	lanes, err := strconv.ParseUint(r.file(width), 10, 8)
	if err != nil || lanes == 0 || lanes > maxLinkWidth || strings.HasPrefix(text, "Unknown") {
		return nil
	}
	link := topology.Link{Width: int(lanes)}
	if link.Speed, err = topology.ParseLinkSpeed(text); err != nil {
		r.problem(CodeBadSysfs, speed, err.Error())
		return nil
	}
	return &link
}

// maxLinkWidth is the widest link that PCI Express knows (5.0, 7.5.3.6). The
// kernel prints 255 for a maximum that it cannot read.
const maxLinkWidth = 32

// Extended capabilities (include/uapi/linux/pci_regs.h): the list begins behind
// the 256 bytes of conventional PCI; an entry's head has the identity in bits 0
// to 15 and the next offset in bits 20 to 31.
const (
	configBytes       = 256
	extendedBytes     = 4096
	capabilityACS     = 0x000d
	capabilityATS     = 0x000f
	controlOffset     = 6
	acsRequest        = 1 << 2
	acsCompletion     = 1 << 3
	acsDirect         = 1 << 6
	atsEnable         = 1 << 15
	longestCapability = 8
)

// readCapabilities takes ACS and ATS from a function's configuration space.
func readCapabilities(d *topology.Details, config []byte) {
	if len(config) < extendedBytes {
		return
	}
	d.ExtendedConfig = true
	seen := map[int]bool{}
	for at := configBytes; at >= configBytes && at <= extendedBytes-longestCapability && !seen[at]; {
		seen[at] = true
		head := binary.LittleEndian.Uint32(config[at:])
		control := binary.LittleEndian.Uint16(config[at+controlOffset:])
		switch head & 0xffff {
		case capabilityACS:
			d.ACS = &topology.ACS{
				RequestRedirect:    control&acsRequest != 0,
				CompletionRedirect: control&acsCompletion != 0,
				DirectTranslated:   control&acsDirect != 0,
			}
		case capabilityATS:
			d.ATS = &topology.ATS{Enabled: control&atsEnable != 0}
		}
		at = int(head >> 20)
	}
}

// packageFile says which package a CPU belongs to
// (Documentation/ABI/stable/sysfs-devices-system-cpu).
const packageFile = "physical_package_id"

// packages counts the CPU packages; 0 when the tree does not show them.
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

// cpus are the names of the directories of CPUs: "cpu0".
func (r *hostReader) cpus() []string {
	var names []string
	for _, entry := range r.entries(cpusDir) {
		digits, isCPU := strings.CutPrefix(entry.Name(), "cpu")
		if _, err := strconv.ParseUint(digits, 10, 16); isCPU && err == nil {
			names = append(names, entry.Name())
		}
	}
	return names
}
