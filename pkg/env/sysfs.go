package env

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"hook-sidecar/pkg/topology"
)

// Where sysfs lists devices (kernel Documentation/ABI/testing/sysfs-bus-pci,
// sysfs-bus-vfio-mdev, sysfs-kernel-iommu_groups).
const (
	pciDevices  = "bus/pci/devices"
	mdevDevices = "bus/mdev/devices"
	iommuGroups = "kernel/iommu_groups"
)

// ReadHost reads what placement needs to know of the given devices from a
// sysfs tree: the online NUMA nodes; each device, a mediated device with its
// parent; and for each of these functions the bridges above it, the other
// functions of its device number, its physical function and the members of its
// IOMMU group. A device that the tree does not show is a Problem with the code
// no-sysfs and not in the Host. A file that cannot be read or says nonsense is
// a Problem too and counts as absent; absent files are none.
func ReadHost(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []Problem) {
	r := newHostReader(fsys)
	for _, id := range ids {
		if a, ok := id.PCI(); ok {
			r.requested(a)
		} else if u, ok := id.MDEV(); ok {
			r.requestedMDEV(u)
		}
	}
	return r.result()
}

// ReadWholeHost reads all PCI functions and mediated devices that a sysfs tree
// shows, as ReadHost does.
func ReadWholeHost(fsys fs.FS) (*topology.Host, []Problem) {
	r := newHostReader(fsys)
	if _, err := r.tree.list(pciDevices); errors.Is(err, fs.ErrNotExist) {
		r.problem(CodeNoSysfs, pciDevices, "the sysfs that was read shows no PCI devices")
	}
	for a := range r.pciNames {
		r.add(a)
	}
	for u := range r.mdevNames {
		r.requestedMDEV(u)
	}
	return r.result()
}

// hostReader gathers a host. Each device is read once.
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
		tree:      newTree(fsys),
		pciNames:  map[topology.Address]string{},
		mdevNames: map[topology.UUID]string{},
		devices:   map[topology.Address]*topology.Device{},
		mdevs:     map[topology.UUID]*topology.MDEV{},
	}
	r.nodes = r.numaNodes()
	for _, entry := range r.entries(pciDevices) {
		if a, err := topology.ParseAddress(entry.Name()); err == nil {
			r.pciNames[a] = entry.Name()
		} else {
			r.problem(CodeBadSysfs, pciDevices, err.Error())
		}
	}
	for _, entry := range r.entries(mdevDevices) {
		if u, err := topology.ParseUUID(entry.Name()); err == nil {
			r.mdevNames[u] = entry.Name()
		} else {
			r.problem(CodeBadSysfs, mdevDevices, err.Error())
		}
	}
	return r
}

// close gives the directories back that are open; reading may go on.
func (r *hostReader) close() {
	if err := r.tree.close(); err != nil {
		r.problem(CodeBadSysfs, ".", err.Error())
	}
}

func (r *hostReader) problem(code, source, text string) {
	r.problems = append(r.problems, Problem{Code: code, Source: source, Text: text})
}

// notShown is the problem of a device that has no entry in its directory.
func (r *hostReader) notShown(id topology.DeviceID, dir string) {
	r.problems = append(r.problems, Problem{
		Code: CodeNoSysfs, Device: id, Source: path.Join(dir, id.String()), Text: "the sysfs that was read does not show this device",
	})
}

// entries lists a directory; none when it is absent.
func (r *hostReader) entries(dir string) []fs.DirEntry {
	entries, err := r.tree.list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(CodeBadSysfs, dir, err.Error())
	}
	return entries
}

// file is the content of a file, "" when it is absent or cannot be read.
func (r *hostReader) file(name string) string {
	content, err := r.tree.file(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(CodeBadSysfs, name, err.Error())
	}
	return content
}

// linkBase is the last name of what a link leads to, "" when it is absent or
// cannot be read.
func (r *hostReader) linkBase(name string) string {
	target, err := r.tree.link(name)
	switch {
	case err == nil:
		return path.Base(target)
	case !errors.Is(err, fs.ErrNotExist):
		r.problem(CodeBadSysfs, name, err.Error())
	}
	return ""
}

// deviceDir is the directory that an entry of pciDevices or mdevDevices links
// to. The entry is there; false, and a Problem, when the link does not lead to
// a real directory of the same name.
func (r *hostReader) deviceDir(link string) (string, bool) {
	dir, err := r.tree.link(link)
	if err == nil && path.Base(dir) != path.Base(link) {
		err = fmt.Errorf("links to another device, %q", topology.Abridge(path.Base(dir)))
	}
	if err == nil {
		_, err = r.tree.dir(dir)
	}
	if err != nil {
		r.problem(CodeBadSysfs, link, err.Error())
		return "", false
	}
	return dir, true
}

// requested reads a PCI function and what placement looks at around it.
func (r *hostReader) requested(a topology.Address) {
	if _, shown := r.pciNames[a]; !shown {
		r.notShown(topology.PCIDevice(a), pciDevices)
		return
	}
	device := r.add(a)
	if device == nil {
		return
	}
	for function := range uint8(8) {
		sibling := a
		sibling.Function = function
		r.addIfShown(sibling)
	}
	if device.PhysFn != nil {
		r.addIfShown(*device.PhysFn)
	}
	if device.IOMMUGroup == nil {
		return
	}
	// Members that are no PCI functions, such as mediated devices, are left out.
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

// add reads a PCI function that is shown, and the bridges above it. Nil when
// it cannot be read, which is then a Problem.
func (r *hostReader) add(a topology.Address) *topology.Device {
	if device, seen := r.devices[a]; seen {
		return device
	}
	r.devices[a] = nil // until it is read, and for good when it cannot be
	dir, ok := r.deviceDir(path.Join(pciDevices, r.pciNames[a]))
	if !ok {
		return nil
	}
	device := r.device(a, dir)
	r.devices[a] = device
	for _, bridge := range device.Bridges {
		if _, shown := r.pciNames[bridge]; !shown {
			r.problem(CodeBadSysfs, dir, fmt.Sprintf("the bridge %s of this path is not in %s", bridge, pciDevices))
			continue
		}
		r.add(bridge)
	}
	return device
}

// result is what was read, in order.
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
