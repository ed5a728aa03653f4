package env

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// The directories where sysfs lists devices (kernel
// Documentation/ABI/testing/sysfs-bus-pci, sysfs-bus-vfio-mdev,
// sysfs-kernel-iommu_groups).
const (
	pciDevices  = "bus/pci/devices"
	mdevDevices = "bus/mdev/devices"
	iommuGroups = "kernel/iommu_groups"
)

// ReadHost reads what placement needs to know about the given devices from a
// sysfs tree: the online NUMA nodes; each device, and the parent of a mediated
// device; and for each of these functions the bridges above it, the other
// functions of the same device, its physical function and the members of its
// IOMMU group. A device that sysfs does not show is left out and becomes a
// Problem with the code no-sysfs. A file that cannot be read or parsed becomes a
// Problem and counts as absent; an absent file is not a Problem. For no devices
// nothing is read.
func ReadHost(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []Problem) {
	if len(ids) == 0 {
		return &topology.Host{}, nil
	}
	r := newHostReader(fsys)
	for _, id := range ids {
		if a, ok := id.PCI(); ok {
			r.addRequested(a)
		} else if u, ok := id.MDEV(); ok {
			r.addMDEV(u)
		}
	}
	return r.result()
}

// ReadWholeHost reads all PCI functions and mediated devices of a sysfs tree as
// ReadHost does.
func ReadWholeHost(fsys fs.FS) (*topology.Host, []Problem) {
	r := newHostReader(fsys)
	if _, err := r.tree.list(pciDevices); errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeNoSysfs, pciDevices, "sysfs shows no PCI devices")
	}
	for a := range r.pciNames {
		r.add(a)
	}
	for u := range r.mdevNames {
		r.addMDEV(u)
	}
	return r.result()
}

// hostReader reads a host. It reads each device once.
type hostReader struct {
	tree     *tree
	problems []Problem

	nodes     []topology.NUMANode
	pciNames  map[topology.Address]string // in pciDevices
	mdevNames map[topology.UUID]string    // in mdevDevices

	devices map[topology.Address]*topology.Device // nil: cannot be read
	mdevs   map[topology.UUID]*topology.MDEV      // nil: cannot be read
}

func newHostReader(fsys fs.FS) *hostReader {
	r := &hostReader{
		tree:    newTree(fsys),
		devices: map[topology.Address]*topology.Device{},
		mdevs:   map[topology.UUID]*topology.MDEV{},
	}
	r.nodes = r.numaNodes()
	r.pciNames = deviceNames(r, pciDevices, topology.ParseAddress)
	r.mdevNames = deviceNames(r, mdevDevices, topology.ParseUUID)
	return r
}

// deviceNames lists the devices of a bus.
func deviceNames[ID comparable](r *hostReader, dir string, parse func(string) (ID, error)) map[ID]string {
	names := map[ID]string{}
	for _, entry := range r.entries(dir) {
		if id, err := parse(entry.Name()); err == nil {
			names[id] = entry.Name()
		} else {
			r.problem(reasons.CodeBadSysfs, dir, err.Error())
		}
	}
	return names
}

// close closes the open directories. The reader stays usable.
func (r *hostReader) close() {
	if err := r.tree.close(); err != nil {
		r.problem(reasons.CodeBadSysfs, ".", err.Error())
	}
}

func (r *hostReader) problem(code reasons.Code, source, text string) {
	r.problems = append(r.problems, Problem{Code: code, Source: source, Text: text})
}

// notShown adds the problem that a device has no entry in its directory.
func (r *hostReader) notShown(id topology.DeviceID, dir string) {
	r.problems = append(r.problems, Problem{
		Code: reasons.CodeNoSysfs, Device: id, Source: path.Join(dir, id.String()), Text: "sysfs does not show this device",
	})
}

// entries lists a directory; none when it is absent.
func (r *hostReader) entries(dir string) []fs.DirEntry {
	entries, err := r.tree.list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeBadSysfs, dir, err.Error())
	}
	return entries
}

// file returns the content of a file, or "" when it is absent or cannot be read.
func (r *hostReader) file(name string) string {
	content, err := r.tree.file(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
	}
	return content
}

// linkBase returns the last component of a link's target, or "" when the link is
// absent or cannot be read.
func (r *hostReader) linkBase(name string) string {
	target, err := r.tree.link(name)
	switch {
	case err == nil:
		return path.Base(target)
	case !errors.Is(err, fs.ErrNotExist):
		r.problem(reasons.CodeBadSysfs, name, err.Error())
	}
	return ""
}

// deviceDir returns the directory that an existing entry of pciDevices or
// mdevDevices links to. When the target is not a real directory of the same name,
// it adds a Problem and returns false.
func (r *hostReader) deviceDir(link string) (string, bool) {
	dir, err := r.tree.link(link)
	if err == nil && path.Base(dir) != path.Base(link) {
		err = fmt.Errorf("links to another device, %q", topology.Abridge(path.Base(dir)))
	}
	if err == nil {
		_, err = r.tree.dir(dir)
	}
	if err != nil {
		r.problem(reasons.CodeBadSysfs, link, err.Error())
		return "", false
	}
	return dir, true
}

// addRequested reads a PCI function and the functions that belong to it.
func (r *hostReader) addRequested(a topology.Address) {
	if _, shown := r.pciNames[a]; !shown {
		r.notShown(topology.PCIDevice(a), pciDevices)
		return
	}
	device := r.add(a)
	if device == nil {
		return
	}
	for function := range uint8(8) {
		companion := a
		companion.Function = function
		r.addIfShown(companion)
	}
	if device.PhysFn != nil {
		r.addIfShown(*device.PhysFn)
	}
	if device.IOMMUGroup == nil {
		return
	}
	// Members that are not PCI functions, such as mediated devices, are skipped.
	for _, member := range r.entries(fmt.Sprintf("%s/%d/devices", iommuGroups, *device.IOMMUGroup)) {
		if a, err := topology.ParseAddress(member.Name()); err == nil {
			r.addIfShown(a)
		}
	}
}

func (r *hostReader) addIfShown(a topology.Address) {
	if _, shown := r.pciNames[a]; shown {
		r.add(a)
	}
}

// add reads a PCI function that sysfs shows, and the bridges above it. When it
// cannot be read, add adds a Problem and returns nil.
func (r *hostReader) add(a topology.Address) *topology.Device {
	if device, seen := r.devices[a]; seen {
		return device
	}
	r.devices[a] = nil // stays nil when it cannot be read
	dir, ok := r.deviceDir(path.Join(pciDevices, r.pciNames[a]))
	if !ok {
		return nil
	}
	device := r.device(a, dir)
	r.devices[a] = device
	for _, bridge := range device.Bridges {
		if _, shown := r.pciNames[bridge]; !shown {
			r.problem(reasons.CodeBadSysfs, dir, fmt.Sprintf("the bridge %s of this path is not in %s", bridge, pciDevices))
			continue
		}
		r.add(bridge)
	}
	return device
}

// result returns the host with its devices sorted.
func (r *hostReader) result() (*topology.Host, []Problem) {
	r.close()
	host := &topology.Host{Nodes: r.nodes}
	for _, a := range slices.SortedFunc(maps.Keys(r.devices), topology.Address.Compare) {
		if device := r.devices[a]; device != nil {
			host.Devices = append(host.Devices, *device)
		}
	}
	for _, u := range slices.SortedFunc(maps.Keys(r.mdevs), cmp.Compare) {
		if m := r.mdevs[u]; m != nil {
			host.MDEVs = append(host.MDEVs, *m)
		}
	}
	return host, sortProblems(r.problems)
}
