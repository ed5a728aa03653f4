package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// The directories where sysfs lists devices (kernel
// Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-vfio-mdev,
// sysfs-kernel-iommu_groups).
const (
	pciDevices  = "bus/pci/devices"
	mdevDevices = "bus/mdev/devices"
	iommuGroups = "kernel/iommu_groups"
)

// Needs is a set of files to read of a host, in addition to those that decide where devices
// are placed: the online NUMA nodes, and of each device the NUMA node, the path, the size
// of the configuration space and, of a function other than 0, the physical function.
type Needs uint8

// The needs.
const (
	// Classes of the functions, which NCCL needs to pair devices; the ids of a GPU, and whether one
	// of AMD is a physical function; whether a virtual function of a NIC shows a link. With them the
	// model of the CPUs, by which Linux and UCX decide.
	Classes Needs = 1 << iota
	// Groups are the IOMMU groups, which hold the functions of a device together, and the physical
	// functions of all virtual ones.
	Groups
	// LinkSpeeds are the fastest links that the functions support, and the functions at both
	// ends of a device's link.
	LinkSpeeds

	details
	warnings
	related
	all

	// Details of each function that is read, the number of CPU packages, and the first function of
	// each device's root bus. A hook reads them only for a policy key, because the kernel wakes a
	// device to read the state of its link.
	Details = details | LinkSpeeds
	// Warnings are the inputs of a plan's warnings: drivers, BARs, the ids of vendor and device,
	// the members of the IOMMU groups, and beside NVIDIA GPUs the host's NVSwitches.
	Warnings = warnings | Classes | Groups
	// Related are the functions that belong to a device: the bridges above it, the other
	// functions of the same device and its physical function.
	Related = related | Warnings
	// All is all PCI functions and mediated devices.
	All = all | Related
)

// Has reports whether n includes others.
func (n Needs) Has(others Needs) bool { return n&others == others }

// hostReader reads a host. It reads each device once.
type hostReader struct {
	tree     *tree
	needs    Needs
	problems []reasons.Finding

	nodes   []topology.NUMANode
	devices map[topology.Address]*topology.Function // nil: cannot be read
	mdevs   map[topology.UUID]*topology.MDEV        // nil: cannot be read
	groups  map[int]bool                            // whose members are read
}

// entries lists the names in a directory; none when it is absent.
func (r *hostReader) entries(dir string) []string {
	names, err := r.tree.list(dir)
	r.check(dir, err)
	return names
}

// file returns the content of a file, or "" when it is absent or cannot be read.
func (r *hostReader) file(name string) string {
	content, err := r.tree.file(name)
	r.check(name, err)
	return content
}

// linkBase returns the last component of a link's target, or "" without a readable link.
func (r *hostReader) linkBase(name string) string {
	target, err := r.tree.link(name)
	if r.check(name, err); err != nil {
		return ""
	}
	return path.Base(target)
}

// deviceDir returns the directory that an entry of pciDevices or mdevDevices links to, or
// "" and a warning when the target is not a real directory of the same name. It is false
// when there is no such entry.
func (r *hostReader) deviceDir(link string) (dir string, shown bool) {
	parent, base := split(link)
	if _, err := r.tree.dir(parent); err != nil {
		r.check(parent, err)
		return "", false
	}

	dir, err := r.tree.link(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}

	// A link to another device, or to another link, would show its files as those of this one.
	if err == nil && path.Base(dir) != base {
		err = fmt.Errorf("links to another device, %q", words.Abridge(path.Base(dir)))
	}

	if err == nil {
		_, err = r.tree.dir(dir)
	}

	if err != nil {
		r.problem(reasons.CodeBadSysfs, link, err.Error())
		return "", true
	}

	return dir, true
}

// hex reads a number like "0x10de" of at most bits bits; 0 when it is absent.
func (r *hostReader) hex(name string, bits int) uint64 {
	n := parsed(r, name, r.file(name), func(text string) (uint64, error) {
		return parseHex(text, bits)
	})
	return *cmp.Or(n, new(uint64))
}

// parsed returns the value of a text that a file or a link has; nil for no text, and with a
// warning for one that is not valid.
func parsed[T any](r *hostReader, name, text string, parse func(string) (T, error)) *T {
	if text == "" {
		return nil
	}

	value, err := parse(text)
	if err != nil {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
		return nil
	}

	return &value
}

func parseNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("invalid number %q: want a decimal number", words.Abridge(text))
	}
	return int(n), nil
}

func parseHex(text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, bits)
	if err != nil {
		return 0, fmt.Errorf("invalid number %q: want hex of at most %d bits",
			words.Abridge(text), bits)
	}

	return n, nil
}

// check adds the problem of reading a file, unless it is absent.
func (r *hostReader) check(name string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
	}
}

func (r *hostReader) problem(code reasons.Code, source, text string) {
	r.problems = append(r.problems, reasons.NewProblem(code, source, text))
}

// notShown adds the problem that a device has no entry in its directory.
func (r *hostReader) notShown(id topology.DeviceID, dir string) {
	text := path.Join(dir, id.String()) + ": sysfs does not show this device"
	r.problems = append(r.problems, reasons.NewFinding(reasons.CodeNoSysfs, &id, text))
}

// close closes the open directories. The reader stays usable.
func (r *hostReader) close() {
	if err := r.tree.close(); err != nil {
		r.problem(reasons.CodeBadSysfs, ".", err.Error())
	}
}
