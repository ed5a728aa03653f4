package nccl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hook-sidecar/test/matrix"
	"hook-sidecar/test/tree"
)

// Machine is a host or a guest as NCCL reads it from /sys.
type Machine struct {
	// address in the machine, by the device's name: its address on the host
	Devices map[string]string

	functions map[string]attributes // by path under /sys/devices
	nodes     []int
}

// attributes are the files of a function. An empty one does not exist.
type attributes map[string]string

// files are the names of what NCCL reads of a function (src/graph/xml.cc, ncclTopoGetXmlFromSys).
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
	if m.nodes, err = (matrix.Sysfs{FS: sysfs}).Nodes(); err != nil {
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
	m := Machine{Devices: map[string]string{}, functions: map[string]attributes{}, nodes: t.Cells}
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

// Write writes the machine's /sys into a directory, as far as NCCL reads it.
func (m Machine) Write(dir string) error {
	for _, d := range []string{"bus/pci/devices", "bus/pci/slots", "class/pci_bus"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}

	for p, a := range m.functions {
		if err := writeFunction(dir, p, a); err != nil {
			return err
		}
	}

	for _, n := range m.nodes {
		node := filepath.Join(dir, "devices/system/node", fmt.Sprintf("node%d", n))
		if err := errors.Join(os.MkdirAll(node, 0o755),
			os.WriteFile(filepath.Join(node, "cpumap"), []byte("ffffffff\n"), 0o644)); err != nil {
			return err
		}
	}

	return nil
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
