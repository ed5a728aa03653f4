package hostfs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
)

// diagnosis makes the files of a function that only doctor reads.
func (h host) diagnosis(dir string, values map[string]string) error {
	for key, which := range map[string]string{"link": "current", "maxlink": "max"} {
		if value, given := values[key]; given {
			speed, width, ok := strings.Cut(value, "x")
			if !ok {
				return fmt.Errorf("invalid %s=%s: want speed and width, such as 16.0x8", key, value)
			}

			h.file(dir+"/"+which+"_link_speed", speed+" GT/s PCIe")
			h.file(dir+"/"+which+"_link_width", width)
		}
	}

	if methods, given := values["reset"]; given {
		h.file(dir+"/reset_method", strings.ReplaceAll(methods, ",", " "))
	}

	creatable, hasList := values["creatable"]
	if current, given := values["vgpu"]; given || hasList {
		h.file(dir+"/nvidia/current_vgpu_type", cmp.Or(current, "0"))
		lines := strings.NewReplacer(",", "\n", ":", " : ", "_", " ").Replace(creatable)
		h.file(dir+"/nvidia/creatable_vgpu_types", lines)
	}

	acs, hasACS := values["acs"]
	ats, hasATS := values["ats"]
	atomics, hasAtomics := values["atomics"]
	if hasACS || hasATS || hasAtomics {
		config := configSpace(acs, ats)
		if hasAtomics {
			addExpress(config, atomics)
		}
		h.files[dir+"/config"] = &fstest.MapFile{Data: config, Mode: 0o444}
	}

	return nil
}

// mdevType makes a type of mediated device as NVIDIA's driver shows it.
func (h host) mdevType(dir, value string) error {
	parts := strings.Split(strings.ReplaceAll(value, "_", " "), ":")
	if len(parts) != 4 {
		return fmt.Errorf("invalid mdevtype=%s: want ID:NAME:AVAILABLE:MAX", value)
	}

	dir += "/mdev_supported_types/" + parts[0]
	h.file(dir+"/name", parts[1])
	h.file(dir+"/available_instances", parts[2])
	h.file(dir+"/description",
		"num_heads=4, frl_config=60, framebuffer=8192M, max_resolution=7680x4320, max_instance="+
			parts[3])

	h.file(dir+"/device_api", "vfio-pci")
	return nil
}

// configSpace returns 4096 bytes with a list of extended capabilities from 0x100 on
// (PCI Express 5.0, 7.6): a serial number, and ACS and ATS unless they are absent.
func configSpace(acs, ats string) []byte {
	config := make([]byte, 4096)
	at := 0x100
	capability := func(id, capable, control uint16) {
		binary.LittleEndian.PutUint32(config[at:], uint32(id)|1<<16|uint32(at+0x10)<<20)
		binary.LittleEndian.PutUint16(config[at+4:], capable)
		binary.LittleEndian.PutUint16(config[at+6:], control)
		at += 0x10
	}

	capability(0x0003, 0, 0x1234) // device serial number

	if acs != "" && acs != "none" {
		capable := uint16(0x7f)
		if slices.Contains(strings.Split(acs, ","), "nopeers") {
			capable = 0x03
		}

		capability(0x000d, capable, acsControl(acs))
	}

	if ats != "" && ats != "none" {
		var control uint16
		if ats == "on" {
			control = 1 << 15
		}
		capability(0x000f, 0, control)
	}

	return config // the last capability points to one of all zeros, which ends the list
}

// addExpress adds a PCI Express capability at 0x40 (PCI Express 5.0, 7.5.3), whose Device
// Capabilities 2 and Device Control 2 have bits of AtomicOps, by a list of names.
func addExpress(config []byte, atomics string) {
	const at, device2, control2, blocked = 0x40, 0x24, 0x28, 0x80
	config[0x06], config[0x34], config[at], config[at+2] = 0x10, at, 0x10, 0x02
	var bits uint32
	for bit, name := range []string{"routing", "32", "64", "128"} {
		if slices.Contains(strings.Split(atomics, ","), name) {
			bits |= 1 << (6 + bit)
		}
	}

	binary.LittleEndian.PutUint32(config[at+device2:], bits)
	if slices.Contains(strings.Split(atomics, ","), "blocked") {
		config[at+control2] = blocked
	}
}

// acsControl returns the control register of ACS: the bits of a list of names.
func acsControl(list string) (control uint16) {
	list = strings.ReplaceAll(list, "default", "sv,rr,cr,uf")
	for bit, name := range []string{"sv", "tb", "rr", "cr", "uf", "ec", "dt"} {
		if slices.Contains(strings.Split(list, ","), name) {
			control |= 1 << bit
		}
	}

	return control
}

// packages makes CPU packages of one CPU each.
func (h host) packages(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 64 {
		return fmt.Errorf("invalid packages %s: must be between 1 and 64", count)
	}

	for i := range n {
		h.file(fmt.Sprintf("devices/system/cpu/cpu%d/topology/physical_package_id", i),
			strconv.Itoa(i))
	}

	return nil
}
