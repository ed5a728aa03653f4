package host

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

// ReadHost reads what a plan says of the given devices from a sysfs tree: the
// online NUMA nodes; each device, and the parent of a mediated device; and for each
// of these functions the bridges above it, the other functions of the same device,
// its physical function and the members of its IOMMU group. A device that sysfs does
// not show is left out and becomes a Problem with the code no-sysfs. A file that
// cannot be read or parsed becomes a Problem and counts as absent; an absent file is
// not a Problem. For no devices nothing is read.
func ReadHost(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []reasons.Problem) {
	return newHostReader(fsys).read(ids)
}

// ReadWarnings reads the part of ReadHost that warnings of a plan follow from: what
// ReadPlaces reads, the drivers and BARs, and the members of the IOMMU groups.
func ReadWarnings(fsys fs.FS, ids []topology.DeviceID) (*topology.Host, []reasons.Problem) {
	r := newHostReader(fsys)
	r.extent = warnings
	return r.read(ids)
}

// Needs is what ReadPlaces reads only for who needs it.
type Needs struct {
	Classes bool // to know which devices NCCL pairs
	Groups  bool // to know which functions of a device belong together
}

// ReadPlaces reads the part of ReadHost that decides where devices are placed: of
// each the NUMA node, the path and the size of its configuration space, of functions
// other than 0 the physical function, and what is needed. On sysfs it keeps files open
// for the next call, and no value.
func ReadPlaces(fsys fs.FS, ids []topology.DeviceID, needs Needs) (*topology.Host, []reasons.Problem) {
	r := &hostReader{extent: places, needs: needs}
	if d, ok := fsys.(*directory); ok && d.kept != nil {
		d.reading.Lock()
		defer d.reading.Unlock()
		r.tree = d.kept
	} else {
		r.tree = newTree(fsys)
	}
	return r.read(ids)
}

// ReadWholeHost reads all PCI functions and mediated devices of a sysfs tree as
// ReadHost does.
func ReadWholeHost(fsys fs.FS) (*topology.Host, []reasons.Problem) {
	r := newHostReader(fsys)
	r.start()
	if _, err := r.tree.list(pciDevices); errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeNoSysfs, pciDevices, "sysfs shows no PCI devices")
	}
	for _, a := range listed(r, pciDevices, topology.ParseAddress) {
		r.add(a)
	}
	for _, u := range listed(r, mdevDevices, topology.ParseUUID) {
		r.addMDEV(u)
	}
	return r.result()
}

// extent is how much is read of a host.
type extent int

const (
	places     extent = iota // what ReadPlaces reads
	warnings                 // what ReadWarnings reads
	everything               // what ReadHost reads
)

// hostReader reads a host. It reads each device once.
type hostReader struct {
	tree     *tree
	extent   extent
	needs    Needs // of extent places; the others have it all
	problems []reasons.Problem

	nodes   []topology.NUMANode
	devices map[topology.Address]*topology.Device // nil: cannot be read
	mdevs   map[topology.UUID]*topology.MDEV      // nil: cannot be read
	groups  map[int]bool                          // whose members are read
}

func newHostReader(fsys fs.FS) *hostReader {
	return &hostReader{tree: newTree(fsys), extent: everything}
}

// start reads what every device needs.
func (r *hostReader) start() {
	r.devices, r.mdevs, r.groups = map[topology.Address]*topology.Device{}, map[topology.UUID]*topology.MDEV{}, map[int]bool{}
	r.nodes = r.numaNodes()
}

// read reads devices.
func (r *hostReader) read(ids []topology.DeviceID) (*topology.Host, []reasons.Problem) {
	if len(ids) == 0 {
		return &topology.Host{}, nil
	}
	r.start()
	for _, id := range ids {
		if a, ok := id.PCI(); ok {
			r.addRequested(a)
		} else if u, ok := id.MDEV(); ok {
			r.addMDEV(u)
		}
	}
	return r.result()
}

// listed are the devices of a bus.
func listed[ID fmt.Stringer](r *hostReader, dir string, parse func(string) (ID, error)) []ID {
	var ids []ID
	for _, name := range r.entries(dir) {
		id, err := parse(name)
		switch {
		case err != nil:
			r.problem(reasons.CodeBadSysfs, dir, err.Error())
		case id.String() != name:
			r.problem(reasons.CodeBadSysfs, dir, fmt.Sprintf("the kernel writes %s, not %q", id, topology.Abridge(name)))
		default:
			ids = append(ids, id)
		}
	}
	return ids
}

// close closes the open directories. The reader stays usable.
func (r *hostReader) close() {
	if err := r.tree.close(); err != nil {
		r.problem(reasons.CodeBadSysfs, ".", err.Error())
	}
}

func (r *hostReader) problem(code reasons.Code, source, text string) {
	r.problems = append(r.problems, reasons.Problem{Code: code, Source: source, Text: text})
}

// notShown adds the problem that a device has no entry in its directory.
func (r *hostReader) notShown(id topology.DeviceID, dir string) {
	r.problems = append(r.problems, reasons.Problem{
		Code: reasons.CodeNoSysfs, Device: id, Source: path.Join(dir, id.String()), Text: "sysfs does not show this device",
	})
}

// entries lists the names in a directory; none when it is absent.
func (r *hostReader) entries(dir string) []string {
	names, err := r.tree.list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeBadSysfs, dir, err.Error())
	}
	return names
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

// deviceDir returns the directory that an entry of pciDevices or mdevDevices links
// to, or "" when the target is not a real directory of the same name, which is a
// Problem, as is a directory of all entries that cannot be read. It is false when
// there is no such entry.
func (r *hostReader) deviceDir(link string) (dir string, shown bool) {
	if _, err := r.tree.dir(path.Dir(link)); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problem(reasons.CodeBadSysfs, path.Dir(link), err.Error())
		}
		return "", false
	}
	dir, err := r.tree.link(link)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err == nil && path.Base(dir) != path.Base(link) {
		err = fmt.Errorf("links to another device, %q", topology.Abridge(path.Base(dir)))
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

// addRequested reads a PCI function and the functions that belong to it.
func (r *hostReader) addRequested(a topology.Address) {
	device, shown := r.add(a)
	if !shown {
		r.notShown(topology.PCIDevice(a), pciDevices)
	}
	if device == nil || r.extent < warnings {
		return
	}
	if r.extent == everything {
		for function := range uint8(8) {
			companion := a
			companion.Function = function
			r.add(companion)
		}
		if device.PhysFn != nil {
			r.add(*device.PhysFn)
		}
	}
	if device.IOMMUGroup == nil || r.groups[*device.IOMMUGroup] {
		return
	}
	r.groups[*device.IOMMUGroup] = true
	// Members that are not PCI functions, such as mediated devices, are skipped.
	for _, member := range r.entries(fmt.Sprintf("%s/%d/devices", iommuGroups, *device.IOMMUGroup)) {
		if a, err := topology.ParseAddress(member); err == nil {
			r.add(a)
		}
	}
}

// add reads a PCI function, and the bridges above it. It is false when sysfs does
// not show the function, and nil when it cannot be read, which is a Problem.
func (r *hostReader) add(a topology.Address) (device *topology.Device, shown bool) {
	if device, seen := r.devices[a]; seen {
		return device, true
	}
	dir, shown := r.deviceDir(path.Join(pciDevices, a.String()))
	if !shown {
		return nil, false
	}
	r.devices[a] = nil // stays nil when it cannot be read
	if dir == "" {
		return nil, true
	}
	dropped, problems := r.tree.dropped, len(r.problems)
	device = r.device(a, dir)
	if r.tree.dropped != dropped { // some of it was of a device that is gone
		r.problems = r.problems[:problems]
		delete(r.devices, a)
		return r.add(a)
	}
	r.devices[a] = device
	if r.extent != everything {
		return device, true
	}
	for _, bridge := range device.Bridges {
		if _, shown := r.add(bridge); !shown {
			r.problem(reasons.CodeBadSysfs, dir, fmt.Sprintf("the bridge %s of this path is not in %s", bridge, pciDevices))
		}
	}
	return device, true
}

// result returns the host with its devices sorted.
func (r *hostReader) result() (*topology.Host, []reasons.Problem) {
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
	return host, reasons.SortProblems(r.problems)
}
