package host

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// device reads the files of a PCI function from its directory.
func (r *hostReader) device(a topology.Address, dir string) *topology.Function {
	d := &topology.Function{Address: a, Conventional: r.configSize(dir) == conventionalBytes}
	if r.needs.Has(LinkSpeeds) {
		d.MaxLink = r.link(dir, "max")
	}

	if r.needs.Has(Groups) {
		d.IOMMUGroup = r.iommuGroup(dir + "/iommu_group")
	}

	if r.needs.Has(Classes) {
		d.Class = uint32(r.hex(dir+"/class", 24))
		d.IsBridge = topology.IsBridgeClass(d.Class)
	}

	if r.needs.Has(Warnings) || d.IsGPU() || d.IsAccelerator() {
		d.Vendor, d.Device = uint16(r.hex(dir+"/vendor", 16)), uint16(r.hex(dir+"/device", 16))
	}

	// Of function 0 it decides the place of an AMD GPU only: no other virtual function shares a
	// slot.
	if a.Function != 0 || d.IsNIC() || d.IsAMDGPU() || r.needs.Has(Groups) ||
		r.needs.Has(LinkSpeeds) {
		d.PhysFn = parsed(r, dir+"/physfn", r.linkBase(dir+"/physfn"), topology.ParseAddress)
	}

	if d.IsAMDGPU() && d.PhysFn != nil {
		d.VFs = r.virtualFunctions(*d.PhysFn)
	}

	if d.IsNIC() && d.PhysFn != nil {
		d.MutesLink = strings.HasPrefix(r.file(dir+"/max_link_speed"), "Unknown")
	}

	if r.needs.Has(Warnings) {
		d.Driver, d.BARs = r.linkBase(dir+"/driver"), r.bars(dir+"/resource")
	}

	if r.needs.Has(Details) {
		d.Details = r.details(dir)
	}

	d.Node = r.affinity(dir + "/numa_node")
	var err error
	if d.Root, d.Bridges, err = splitPath(dir); err != nil {
		r.problem(reasons.CodeBadSysfs, path.Join(pciDevices, path.Base(dir)), err.Error())
	}

	return d
}

// virtualFunctions returns how many virtual functions a physical one has; nil where sysfs does not
// show it.
func (r *hostReader) virtualFunctions(physical topology.Address) *int {
	dir, err := r.tree.link(path.Join(pciDevices, physical.String()))
	if err != nil {
		return nil
	}

	name := dir + "/sriov_numvfs"
	return parsed(r, name, r.file(name), parseNumber)
}

// conventionalBytes is the size of the configuration space of conventional PCI; PCI Express has
// 4096 bytes (include/uapi/linux/pci_regs.h).
const conventionalBytes = 256

// configSize returns the size of a function's configuration space, which any user may read;
// 0 if unknown. A snapshot has configSizeFile in place of config.
func (r *hostReader) configSize(dir string) int64 {
	if e, err := r.tree.entry(dir + "/config"); err == nil {
		return e.size
	}

	size, err := strconv.ParseInt(r.file(path.Join(dir, configSizeFile)), 10, 64)
	if err != nil {
		return 0
	}

	return size
}

// configSizeFile is a file of snapshots only, where that size is conventionalBytes.
const configSizeFile = "config_size"

// splitPath finds the PCIe root and the bridges in the path of a PCI function. The root is
// the last component that names one, because a device under VMD has two (kernel
// drivers/pci/controller/vmd.c).
//
//	devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/10000:01:00.0
//	                                root        bridge        the device
func splitPath(dir string) (topology.PCIeRoot, []topology.Address, error) {
	parts := strings.Split(dir, "/")
	root := -1
	for i, part := range parts {
		if isRoot(part) {
			root = i
		}
	}

	if root < 0 {
		return "", nil, errors.New("links to a path with no PCIe root")
	}

	var chain []topology.Address
	for _, part := range parts[root+1:] {
		a, err := topology.ParseAddress(part)
		if err != nil {
			return "", nil, fmt.Errorf("path of a PCI function: %w", err)
		}
		if slices.Contains(chain, a) {
			return "", nil, fmt.Errorf("path of a PCI function: %s appears twice", a)
		}

		chain = append(chain, a)
	}

	bridges := chain[:len(chain)-1]
	if len(bridges) == 0 {
		bridges = nil
	}

	return topology.PCIeRoot(parts[root]), bridges, nil
}

// isRoot reports whether a name is a host bridge's, pci<domain>:<bus> (kernel drivers/pci/probe.c,
// pci_register_host_bridge).
func isRoot(name string) bool {
	number, ok := strings.CutPrefix(name, "pci")
	if !ok {
		return false
	}

	_, err := topology.ParseAddress(number + ":00.0")
	return err == nil
}

// iommuGroup reads the link to the IOMMU group; nil without one.
func (r *hostReader) iommuGroup(name string) *int {
	return parsed(r, name, r.linkBase(name), parseNumber)
}

// Flags of a resource (include/linux/ioport.h).
const (
	resourceIO    = 0x00000100
	resourceMem64 = 0x00100000
	resourceUnset = 0x20000000 // no address assigned
)

// maxBARs is the number of base address registers, the first lines of a resource file
// (include/linux/pci.h, PCI_STD_NUM_BARS), before the ROM, the windows of a bridge and the
// BARs of virtual functions.
const maxBARs = 6

// bars reads the BARs in use from a resource file, with start, end and flags per line.
func (r *hostReader) bars(name string) []topology.BAR {
	content := r.file(name)
	if content == "" {
		return nil
	}

	bars := []topology.BAR{} // not nil: the file exists
	number := 0
	for line := range strings.SplitSeq(content, "\n") {
		if number++; number > maxBARs {
			break
		}

		bar, used, err := parseBAR(line)
		if err != nil {
			r.problem(reasons.CodeBadSysfs, name, fmt.Sprintf("line %d: %v", number, err))
			return nil
		}

		if used {
			bars = append(bars, bar)
		}
	}

	return bars
}

func parseBAR(line string) (bar topology.BAR, used bool, err error) {
	var start, end, flags uint64
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return topology.BAR{}, false, fmt.Errorf("invalid BAR %q: want start, end and flags",
			words.Abridge(line))
	}

	for i, into := range []*uint64{&start, &end, &flags} {
		if *into, err = parseHex(fields[i], 64); err != nil {
			return topology.BAR{}, false, err
		}
	}

	// Without flags, or with start and end 0, the BAR does not exist or has no
	// size (include/linux/pci.h, pci_resource_len).
	if flags == 0 || start == 0 && end == 0 {
		return topology.BAR{}, false, nil
	}
	if end < start || end-start == 1<<64-1 {
		return topology.BAR{}, false, fmt.Errorf("invalid range %#x to %#x", start, end)
	}

	return topology.BAR{
		Bytes: end - start + 1,
		IO:    flags&resourceIO != 0,
		Is64:  flags&resourceMem64 != 0,
		// I/O ports may start at 0, device memory never does.
		Unassigned: flags&resourceUnset != 0 || flags&resourceIO == 0 && start == 0,
	}, true, nil
}

const nodesDir = "devices/system/node"

// maxNode is the highest NUMA node of Linux: MAX_NUMNODES is at most 1024
// (arch/x86/Kconfig, NODES_SHIFT).
const maxNode = 1023

// numaNodes reads the online nodes; none when sysfs shows none.
func (r *hostReader) numaNodes() []topology.NUMANode {
	name := path.Join(nodesDir, "online")
	content := r.file(name)
	ids, err := topology.ParseIDs(content)
	if err != nil {
		r.problem(reasons.CodeBadSysfs, name, err.Error())
		return nil
	}

	var nodes []topology.NUMANode
	for n := range ids.All() {
		id := parsed(r, name, strconv.Itoa(n), parseNode)
		if id == nil {
			break
		}

		node := topology.NUMANode{ID: *id}
		list := path.Join(nodesDir, fmt.Sprintf("node%d", n), "cpulist")
		if node.CPUs, err = topology.ParseIDs(r.file(list)); err != nil {
			r.problem(reasons.CodeBadSysfs, list, err.Error())
		}

		nodes = append(nodes, node)
	}

	return nodes
}

// affinity reads the numa_node of a device. -1 and an absent file mean no affinity, and so
// does a node that is not online, which is a warning.
func (r *hostReader) affinity(name string) topology.Affinity {
	content := r.file(name)
	if content == "-1" {
		return topology.Affinity{}
	}

	node := parsed(r, name, content, parseNode)
	if node == nil {
		return topology.Affinity{}
	}

	online := slices.ContainsFunc(r.nodes, func(known topology.NUMANode) bool {
		return known.ID == *node
	})

	if !online && len(r.nodes) > 0 {
		r.problem(reasons.CodeBadSysfs, name, fmt.Sprintf("NUMA node %d is not online", *node))
		return topology.Affinity{}
	}

	return topology.OnNode(*node)
}

func parseNode(text string) (topology.NodeID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > maxNode {
		return 0, fmt.Errorf("invalid NUMA node %q: must be between 0 and %d",
			words.Abridge(text), maxNode)
	}

	return topology.NodeID(n), nil
}
