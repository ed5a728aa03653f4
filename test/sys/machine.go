// Package sys makes the /sys of hosts and of guests, as far as the programs read it that decide by
// the PCI tree: NCCL, UCX, hwloc, Kubernetes' DRA. It has one CPU per NUMA node.
package sys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// Machine is a host or a guest as programs read it from /sys.
type Machine struct {
	// address in the machine, by the device's name: its address on the host
	Devices map[string]string

	functions map[string]attributes // by path under /sys/devices
	nodes     []node                // in the order of their numbers; none for a guest without cells
	isGuest   bool
}

// node is a NUMA node.
type node struct {
	number    int
	distances []int // to each node; nil where they are not known
}

// attributes are the files of a function. An empty one does not exist.
type attributes map[string]string

// files are the names of what programs read of a function (of NCCL src/graph/xml.cc,
// ncclTopoGetXmlFromSys).
var files = []string{"class", "vendor", "device", "subsystem_vendor", "subsystem_device",
	"max_link_speed", "max_link_width", "numa_node"}

// Recorded returns the machine that a sysfs shows: a host, or a guest that has booted. Each device
// has its own address for a name.
func Recorded(sysfs fs.FS) (Machine, error) {
	links, err := fs.ReadDir(sysfs, "bus/pci/devices")
	if err != nil {
		return Machine{}, err
	}

	m := Machine{Devices: map[string]string{}, functions: map[string]attributes{}}
	if m.nodes, err = recordedNodes(sysfs); err != nil {
		return m, err
	}

	for _, link := range links {
		dir, err := directory(sysfs, link.Name())
		if err != nil {
			return m, err
		}

		m.Devices[link.Name()] = link.Name()
		m.functions[strings.TrimPrefix(dir, "devices/")] = read(sysfs, dir)
	}

	return m, nil
}

// recordedNodes returns the nodes of a sysfs.
func recordedNodes(sysfs fs.FS) (nodes []node, err error) {
	numbers, err := (matrix.Sysfs{FS: sysfs}).Nodes()
	for _, number := range numbers {
		n := node{number: number}
		text, err := fs.ReadFile(sysfs, path.Join(nodeDir(number), "distance"))
		if err == nil {
			for _, field := range strings.Fields(string(text)) {
				distance, err := strconv.Atoi(field)
				if err != nil {
					return nil, fmt.Errorf("read the distances of node %d: %w", number, err)
				}
				n.distances = append(n.distances, distance)
			}
		}

		nodes = append(nodes, n)
	}

	return nodes, err
}

func nodeDir(number int) string { return fmt.Sprintf("devices/system/node/node%d", number) }

// directory returns the path of a function in /sys.
func directory(sysfs fs.FS, address string) (string, error) {
	const devices = "bus/pci/devices"
	target, err := fs.ReadLink(sysfs, path.Join(devices, address))
	return path.Join(devices, target), err
}

// read reads the attributes of a function.
func read(sysfs fs.FS, dir string) attributes {
	a := attributes{}
	for _, name := range files {
		if data, err := fs.ReadFile(sysfs, path.Join(dir, name)); err == nil {
			a[name] = strings.TrimSpace(string(data))
		}
	}

	return a
}

// Guest returns the guest of a domain in which every device has its address. Bus numbers are those
// of firmware, nodes those of the expander buses, and links of ports those that QEMU advertises.
func Guest(host fs.FS, domain []byte) (Machine, error) {
	root, err := tree.Parse(domain)
	if err != nil {
		return Machine{}, err
	}

	t := tree.Of(root)
	buses := t.Buses()
	m := Machine{Devices: map[string]string{}, functions: map[string]attributes{},
		nodes: cells(t.Cells), isGuest: true}
	for index, c := range t.Controllers {
		if index == 0 || c.Model == tree.ExpanderBus || c.At == nil {
			continue
		}
		m.functions[buses[index].Dir] = port(c, PortLink(root, c), nodeOf(t, c.At))
	}

	for id, d := range t.Hostdevs {
		if d.At == nil || d.Attr("type") != "pci" {
			continue
		}

		a, err := passedThrough(host, id)
		if err != nil {
			return m, fmt.Errorf("%s: %w", id, err)
		}
		if a == nil {
			continue // the host does not have it
		}

		a["numa_node"] = fmt.Sprint(nodeOf(t, d.At))
		at := buses[d.At.Bus].Path(d.At.Slot, d.At.Function)
		m.Devices[id] = path.Base(at)
		m.functions[at] = a
	}

	return m, nil
}

// cells returns the nodes that a guest without <distances> has: 10 to itself and 20 to each other
// (Linux include/linux/topology.h, LOCAL_DISTANCE and REMOTE_DISTANCE).
func cells(numbers []int) []node {
	const local, remote = 10, 20
	nodes := make([]node, len(numbers))
	for i, number := range numbers {
		nodes[i] = node{number, slices.Repeat([]int{remote}, len(numbers))}
		nodes[i].distances[i] = local
	}

	return nodes
}

// nodeOf returns what numa_node shows of a function of the guest: the cell of its expander bus, -1
// under pcie.0.
func nodeOf(t *tree.Tree, at *tree.Address) int {
	above := t.Above(at)
	if len(above) == 0 {
		return tree.Unknown
	}
	return above[len(above)-1].Cell
}

// port returns the attributes of a bridge of QEMU.
func port(c tree.Controller, link Link, node int) attributes {
	return attributes{
		"class": "0x060400", "vendor": "0x1b36", "device": "0x000c",
		"subsystem_vendor": "0x0000", "subsystem_device": "0x0000",
		"max_link_speed": link.Speed, "max_link_width": link.Width, "numa_node": fmt.Sprint(node),
	}
}

// passedThrough returns the attributes of a function of the host in a guest, nil where the host
// does not have it. QEMU shows the hardware's link (hw/vfio/pci.c, vfio_setup_pcie_cap), of a
// virtual function that of its physical function.
func passedThrough(host fs.FS, address string) (attributes, error) {
	dir, err := directory(host, address)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	a := read(host, dir)
	physical, err := fs.ReadLink(host, path.Join(dir, "physfn"))
	if err == nil && a["max_link_speed"] == "" {
		own := read(host, path.Join(dir, physical))
		a["max_link_speed"], a["max_link_width"] = own["max_link_speed"], own["max_link_width"]
	}

	return a, nil
}

// IsMixed reports whether a PCIe root has devices of several nodes, or of a node and of none: firmware
// may give a device another one than that of its bus (ACPI 6.5, 6.2.15, _PXM).
func (m Machine) IsMixed() bool {
	nodes := map[string]string{} // of the first function, by root; "" for none
	for p, a := range m.functions {
		root, _, _ := strings.Cut(p, "/")
		first, isKnown := nodes[root]
		switch number := a["numa_node"]; {
		case isBridge(a):
		case isKnown && number != first:
			return true
		default:
			nodes[root] = number
		}
	}

	return false
}

// isBridge reports whether a function is a port, or another bridge to a PCI bus.
func isBridge(a attributes) bool { return strings.HasPrefix(a["class"], "0x0604") }

// Write writes the machine's /sys into a directory.
func (m Machine) Write(dir string) error {
	for _, d := range []string{"bus/pci/devices", "bus/pci/slots", "class/pci_bus"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}

	for p, a := range m.functions {
		if err := errors.Join(writeFunction(dir, p, a), m.writeLocality(dir, p, a),
			m.writeBuses(dir, p, a)); err != nil {
			return err
		}
	}

	return m.writeCPUs(dir)
}

// writeFunction writes the directory of a function and the links to it and to its bus.
func writeFunction(dir, function string, a attributes) error {
	at := filepath.Join(dir, "devices", function)
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}

	for name, value := range a {
		if value == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}

	// A NIC whose subsystem is not pci is attached to the first CPU (topo.cc, ncclTopoAddNet).
	if err := errors.Join(link(filepath.Join(at, "subsystem"), filepath.Join(dir, "bus/pci")),
		link(filepath.Join(dir, "bus/pci/devices", path.Base(function)), at)); err != nil {
		return err
	}

	// NCCL finds the bus of a GPU there (src/misc/utils.cc, getBusId; xml.cc, getPciPath).
	name := path.Base(function)
	bus := name[:strings.LastIndex(name, ":")]
	busDir := filepath.Join(filepath.Dir(at), "pci_bus", bus)
	if err := os.MkdirAll(busDir, 0o755); err != nil {
		return err
	}

	err := link(filepath.Join(dir, "class/pci_bus", bus), busDir)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}

	return err
}

// writeLocality writes the CPUs that are near a function, as hwloc reads them: those of its node,
// or all (drivers/pci/pci-sysfs.c, pci_dev_show_local_cpu). A bridge that was recorded without a
// node has that of the devices behind it.
func (m Machine) writeLocality(dir, function string, a attributes) error {
	number := a["numa_node"]
	for _, p := range slices.Sorted(maps.Keys(m.functions)) {
		if number == "" && strings.HasPrefix(p, function+"/") {
			number = m.functions[p]["numa_node"]
		}
	}

	near := uint32(1)<<max(1, len(m.nodes)) - 1
	for i, n := range m.nodes {
		if number == strconv.Itoa(n.number) {
			near = 1 << i
		}
	}

	return write(filepath.Join(dir, "devices", function, "local_cpus"), mask(near))
}

// writeBuses writes the start of a bridge's configuration space, in which hwloc finds the numbers
// of the buses behind it (PCI-to-PCI bridge specification 1.2, 3.2).
func (m Machine) writeBuses(dir, bridge string, a attributes) error {
	low, high := m.busesBehind(bridge)
	if !isBridge(a) || high == 0 {
		return nil
	}

	config := make([]byte, 64)
	for at, name := range map[int]string{0: "vendor", 2: "device"} {
		id, err := strconv.ParseUint(a[name], 0, 16)
		if err != nil {
			return fmt.Errorf("read the %s of %s: %w", name, bridge, err)
		}
		binary.LittleEndian.PutUint16(config[at:], uint16(id))
	}

	const class, header, buses = 10, 14, 24
	binary.LittleEndian.PutUint16(config[class:], 0x0604)
	config[header] = 1
	config[buses], config[buses+1], config[buses+2] = busOf(bridge), low, high
	return os.WriteFile(filepath.Join(dir, "devices", bridge, "config"), config, 0o644)
}

// busesBehind returns the lowest and the highest number of the buses of the functions behind a
// bridge that are of its PCI domain; 0 where there are none.
func (m Machine) busesBehind(bridge string) (low, high byte) {
	domain, _, _ := strings.Cut(path.Base(bridge), ":")
	for p := range m.functions {
		if strings.HasPrefix(p, bridge+"/") && strings.HasPrefix(path.Base(p), domain+":") {
			if bus := busOf(p); low == 0 || bus < low {
				low = bus
			}
			high = max(high, busOf(p))
		}
	}

	return low, high
}

// busOf returns the number of the bus that a function is on.
func busOf(function string) byte {
	fields := strings.Split(path.Base(function), ":")
	number, err := strconv.ParseUint(fields[1], 16, 8)
	if err != nil {
		panic(err) // of a path that was written here or read from sysfs
	}

	return byte(number)
}

// writeCPUs writes the nodes, and a CPU for each, which hwloc, NCCL and DRA read.
func (m Machine) writeCPUs(dir string) error {
	count := max(1, len(m.nodes))
	list := fmt.Sprintf("0-%d", count-1)
	files := map[string]string{
		"devices/system/cpu/online": list, "devices/system/cpu/possible": list,
		"devices/system/cpu/present": list,
	}

	for i := range count {
		topology := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", i)
		files[topology+"core_id"] = strconv.Itoa(i)
		files[topology+"core_cpus"] = mask(1 << i)
		files[topology+"physical_package_id"] = strconv.Itoa(m.packageOf(i))
		var siblings uint32
		for j := range count {
			if m.packageOf(j) == m.packageOf(i) {
				siblings |= 1 << j
			}
		}
		files[topology+"package_cpus"] = mask(siblings)
	}

	var online []string
	for i, n := range m.nodes {
		online = append(online, strconv.Itoa(n.number))
		files[nodeDir(n.number)+"/cpumap"] = mask(1 << i)
		files[nodeDir(n.number)+"/cpulist"] = strconv.Itoa(i)
		if n.distances != nil {
			files[nodeDir(n.number)+"/distance"] = strings.Trim(fmt.Sprint(n.distances), "[]")
		}
	}

	if len(online) > 0 {
		files["devices/system/node/online"] = strings.Join(online, ",")
	}

	for name, value := range files {
		if err := write(filepath.Join(dir, name), value); err != nil {
			return err
		}
	}

	return nil
}

// packageOf returns the number of the package of a CPU, that of the first node that is as near as
// another of one package: AMD's firmware gives these distance 12, and those of other packages 32. A
// guest's cells count as sockets of their own.
func (m Machine) packageOf(cpu int) int {
	const remote = 20
	for i := range cpu {
		if distances := m.nodes[cpu].distances; i < len(distances) && distances[i] < remote {
			return i
		}
	}

	return cpu
}

// mask returns a set of CPUs as sysfs writes it.
func mask(cpus uint32) string { return fmt.Sprintf("%08x", cpus) }

// write writes a file of sysfs and the directories above it.
func write(name, value string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(value+"\n"), 0o644)
}

// link makes a relative symbolic link, as sysfs has them.
func link(name, target string) error {
	relative, err := filepath.Rel(filepath.Dir(name), target)
	if err != nil {
		return err
	}
	return os.Symlink(relative, name)
}

// functionsOf returns the machine's devices of a kind, by name.
func (m Machine) functionsOf(names []string, isKind func(class string) bool) []string {
	var all []string
	for p, a := range m.functions {
		for _, name := range names {
			if m.Devices[name] == path.Base(p) && isKind(a["class"]) {
				all = append(all, name)
			}
		}
	}

	slices.Sort(all)
	return all
}

// GPUs returns the names of the machine's GPUs among devices, in the order of the names.
func (m Machine) GPUs(names []string) []string {
	return m.functionsOf(names, func(class string) bool {
		return strings.HasPrefix(class, "0x03") || class == "0x120000" // topo.cc, kvDictPciClass
	})
}

// NICs returns the names of the machine's NICs among devices, in the order of the names.
func (m Machine) NICs(names []string) []string {
	return m.functionsOf(names, func(class string) bool { return strings.HasPrefix(class, "0x02") })
}
