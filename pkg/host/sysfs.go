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

// HasRegisters reports whether a sysfs shows the registers of a function.
func HasRegisters(sysfs fs.FS) bool {
	h, _ := Read(sysfs, nil, All|Details)
	return slices.ContainsFunc(h.Functions, func(f topology.Function) bool {
		return f.Details != nil && f.Details.ExtendedConfig
	})
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

	// The link of a virtual function is that of its physical one, and the port above is its other
	// end.
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

// addMDEV reads a mediated device and its parent.
func (r *hostReader) addMDEV(u topology.UUID) {
	if _, seen := r.mdevs[u]; seen {
		return
	}

	// Noted before it is read: one that cannot be read is a problem once.
	r.mdevs[u] = nil
	dir, shown := r.deviceDir(path.Join(mdevDevices, u.String()))
	if !shown {
		r.notShown(topology.MediatedDevice(u), mdevDevices)
	}

	if dir == "" {
		return
	}

	m := &topology.MDEV{
		UUID:       u,
		Type:       r.linkBase(dir + "/mdev_type"),
		IOMMUGroup: r.iommuGroup(dir + "/iommu_group"),
	}

	r.mdevs[u] = m

	// Under devices/virtual the parent is a driver, such as mtty (kernel
	// samples/vfio-mdev).
	parent, err := topology.ParseAddress(path.Base(path.Dir(dir)))
	if err != nil {
		return
	}

	m.Parent = &parent

	if _, shown := r.add(parent); !shown {
		r.problem(reasons.CodeBadSysfs, dir,
			fmt.Sprintf("the parent %s of this mediated device is not in %s", parent, pciDevices))
		return
	}

	r.addRequested(parent)
}

// addRootComplex reads the first function of a device's root bus, by which Linux knows the root
// complex (drivers/pci/p2pdma.c, pci_host_bridge_dev).
func (r *hostReader) addRootComplex(device *topology.Function) {
	dir, err := r.tree.link(pciDevices + "/" + device.Address.String())
	if err != nil || device.Root == "" {
		return
	}

	// The directory of a function is in that of the bridge above it, so the root bus is one step
	// further up than there are bridges.
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
