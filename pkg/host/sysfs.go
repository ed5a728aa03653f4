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

// Read reads devices, and the parents of mediated devices, from a sysfs tree. A device
// without an entry becomes a warning with the code no-sysfs. A file that cannot be read or
// parsed becomes a warning and counts as absent; an absent file is not a warning. For no
// devices nothing is read, unless all are needed.
func Read(fsys fs.FS, ids []topology.DeviceID, needs Needs) (*topology.Host, []reasons.Finding) {
	if len(ids) == 0 && !needs.Has(All) {
		return &topology.Host{}, nil
	}

	r := newHostReader(fsys, needs)
	host := &topology.Host{Nodes: r.nodes}

	for _, id := range ids {
		if a, ok := id.PCI(); ok {
			r.addRequested(a)
		} else if u, ok := id.MDEV(); ok {
			r.addMDEV(u)
		}
	}

	if needs.Has(Warnings) && r.hasNVIDIAGPU() {
		r.addNVSwitches()
	}

	if needs.Has(All) {
		r.addAll()
	}

	if needs.Has(Classes) {
		host.CPU = r.cpu()
	}

	if needs.Has(Details) {
		host.Packages, host.Kernel = r.packages(), Kernel(fsys)
		host.Arguments, host.AnswersATS = r.arguments(), r.answersATS()
	}

	return r.fill(host)
}

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

// newHostReader returns a reader that has read the NUMA nodes, which every device needs.
func newHostReader(fsys fs.FS, needs Needs) *hostReader {
	r := &hostReader{
		tree: newTree(fsys), needs: needs,
		devices: map[topology.Address]*topology.Function{},
		mdevs:   map[topology.UUID]*topology.MDEV{},
		groups:  map[int]bool{},
	}

	r.nodes = r.numaNodes()
	return r
}

// hasNVIDIAGPU reports whether an NVIDIA GPU was read.
func (r *hostReader) hasNVIDIAGPU() bool {
	for _, d := range r.devices {
		if d.IsGPU() && d.Vendor == topology.VendorNVIDIA {
			return true
		}
	}

	return false
}

// addNVSwitches reads the host's NVSwitches. Of the other functions it reads the class alone, and
// nothing that cannot be read is a problem: the VM does not have them.
func (r *hostReader) addNVSwitches() {
	// As drivers/pci/pci-sysfs.c prints them.
	nvSwitch := fmt.Sprintf("0x%06x", topology.ClassOtherBridge)
	nvidia := fmt.Sprintf("0x%04x", topology.VendorNVIDIA)

	names, _ := r.tree.list(pciDevices)
	for _, name := range names {
		dir, err := r.tree.link(pciDevices + "/" + name)
		if err != nil {
			continue
		}

		class, _ := r.tree.file(dir + "/class")
		vendor := ""
		if class == nvSwitch {
			vendor, _ = r.tree.file(dir + "/vendor")
		}

		if a, err := topology.ParseAddress(name); err == nil && vendor == nvidia {
			r.add(a)
		}
	}
}

// addAll reads all PCI functions and mediated devices.
func (r *hostReader) addAll() {
	if _, err := r.tree.list(pciDevices); errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeNoSysfs, pciDevices, "sysfs shows no PCI devices")
	}

	for _, a := range listed(r, pciDevices, topology.ParseAddress) {
		r.add(a)
	}

	for _, u := range listed(r, mdevDevices, topology.ParseUUID) {
		r.addMDEV(u)
	}
}

// listed returns the devices of a bus.
func listed[ID fmt.Stringer](r *hostReader, dir string, parse func(string) (ID, error)) []ID {
	var ids []ID
	for _, name := range r.entries(dir) {
		id, err := parse(name)
		switch {
		case err != nil:
			r.problem(reasons.CodeBadSysfs, dir, err.Error())
		case id.String() != name:
			r.problem(reasons.CodeBadSysfs, dir,
				fmt.Sprintf("the kernel writes %s, not %q", id, words.Abridge(name)))

		default:
			ids = append(ids, id)
		}
	}

	return ids
}

func (r *hostReader) problem(code reasons.Code, source, text string) {
	r.problems = append(r.problems, reasons.NewProblem(code, source, text))
}

// notShown adds the problem that a device has no entry in its directory.
func (r *hostReader) notShown(id topology.DeviceID, dir string) {
	text := path.Join(dir, id.String()) + ": sysfs does not show this device"
	r.problems = append(r.problems, reasons.NewFinding(reasons.CodeNoSysfs, &id, text))
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

// addRequested reads a PCI function and the functions that belong to it.
func (r *hostReader) addRequested(a topology.Address) {
	device, shown := r.add(a)
	if !shown {
		r.notShown(topology.PCIDevice(a), pciDevices)
	}

	if device == nil {
		return
	}

	if r.needs.Has(Related) {
		for function := range uint8(8) {
			companion := a
			companion.Function = function
			r.add(companion)
		}
	}

	if r.needs.Has(Related) || r.needs.Has(LinkSpeeds) {
		r.add(device.LinkEnd())
	}

	if above := device.PortAbove(); above != nil && r.needs.Has(LinkSpeeds) {
		r.add(*above)
	}

	if r.needs.Has(Warnings) {
		r.addGroup(device)
	}

	if r.needs.Has(Details) {
		r.addRootComplex(device)
	}
}

// addRootComplex reads the first function of a device's root bus, by which Linux knows the root
// complex (drivers/pci/p2pdma.c, pci_host_bridge_dev).
func (r *hostReader) addRootComplex(device *topology.Function) {
	dir, err := r.tree.link(pciDevices + "/" + device.Address.String())
	if err != nil || device.Root == "" {
		return
	}

	for i := len(device.Bridges); i >= 0; i-- { // up to the root bus
		dir = path.Dir(dir)
	}

	var functions []topology.Address
	for _, name := range r.entries(dir) {
		if a, err := topology.ParseAddress(name); err == nil {
			functions = append(functions, a)
		}
	}

	if len(functions) > 0 {
		r.add(slices.MinFunc(functions, topology.Address.Compare))
	}
}

// addGroup reads the members of a device's IOMMU group.
func (r *hostReader) addGroup(device *topology.Function) {
	if device.IOMMUGroup == nil || r.groups[*device.IOMMUGroup] {
		return
	}

	r.groups[*device.IOMMUGroup] = true

	// Members that are not PCI functions, such as mediated devices, are skipped.
	for _, member := range r.entries(fmt.Sprintf("%s/%d/devices", iommuGroups,
		*device.IOMMUGroup)) {
		if a, err := topology.ParseAddress(member); err == nil {
			r.add(a)
		}
	}
}

// entries lists the names in a directory; none when it is absent.
func (r *hostReader) entries(dir string) []string {
	names, err := r.tree.list(dir)
	r.check(dir, err)
	return names
}

// add reads a PCI function, and the bridges above it. It returns false when sysfs does not
// show the function, and nil when it cannot be read, which is a warning.
func (r *hostReader) add(a topology.Address) (device *topology.Function, shown bool) {
	if device, seen := r.devices[a]; seen {
		return device, true
	}

	dir, shown := r.deviceDir(pciDevices + "/" + a.String())
	if !shown {
		return nil, false
	}

	r.devices[a] = nil // stays nil when it cannot be read
	if dir == "" {
		return nil, true
	}

	device = r.device(a, dir)
	r.devices[a] = device
	if !r.needs.Has(Related) {
		return device, true
	}

	for _, bridge := range device.Bridges {
		if _, shown := r.add(bridge); !shown {
			r.problem(reasons.CodeBadSysfs, dir,
				fmt.Sprintf("the bridge %s of this path is not in %s", bridge, pciDevices))
		}
	}

	return device, true
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

// check adds the problem of reading a file, unless it is absent.
func (r *hostReader) check(name string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
	}
}

// fill adds the devices that were read to the host, sorted.
func (r *hostReader) fill(host *topology.Host) (*topology.Host, []reasons.Finding) {
	r.close()
	for _, a := range slices.SortedFunc(maps.Keys(r.devices), topology.Address.Compare) {
		if device := r.devices[a]; device != nil {
			host.Functions = append(host.Functions, *device)
		}
	}

	for _, u := range slices.SortedFunc(maps.Keys(r.mdevs), cmp.Compare) {
		if m := r.mdevs[u]; m != nil {
			host.MDEVs = append(host.MDEVs, *m)
		}
	}

	return host, reasons.Sort(r.problems)
}

// close closes the open directories. The reader stays usable.
func (r *hostReader) close() {
	if err := r.tree.close(); err != nil {
		r.problem(reasons.CodeBadSysfs, ".", err.Error())
	}
}
