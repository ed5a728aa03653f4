package host

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
)

// Sysfs returns a sysfs that shows a host: its NUMA nodes, CPU and PCI functions, with the places,
// ids, drivers, links, IOMMU groups, sizes of BARs and registers that they have. Read returns the
// same host from it. What the host lacks, the sysfs lacks too. A function without a PCIe root is an
// error.
func Sysfs(h *topology.Host) (fs.FS, error) {
	w := sysfsMaker{files: newFileSystem("")}
	w.nodes(h.Nodes)
	w.cpu(h.CPU)
	for i := range h.Functions {
		w.function(&h.Functions[i])
	}

	if w.err != nil {
		return nil, fmt.Errorf("make sysfs: %w", w.err)
	}

	w.files.sort()
	return w.files, nil
}

// sysfsMaker collects the files of a sysfs, up to the first error.
type sysfsMaker struct {
	files *fileSystem
	err   error
}

func (w *sysfsMaker) file(dir, name, content string) {
	w.add(path.Join(dir, name), 0o444, content+"\n")
}

func (w *sysfsMaker) nodes(nodes []topology.NUMANode) {
	if len(nodes) == 0 {
		return
	}

	online := topology.Map(nodes, func(n topology.NUMANode) string {
		return strconv.Itoa(int(n.ID))
	})

	w.file(nodesDir, "online", strings.Join(online, ","))
	for _, n := range nodes {
		w.file(path.Join(nodesDir, fmt.Sprintf("node%d", n.ID)), "cpulist", n.CPUs.String())
	}
}

func (w *sysfsMaker) cpu(c topology.CPU) {
	if c.Arch != "" {
		w.file(cpusDir, modaliasFile, fmt.Sprintf("cpu:type:%s,ven%04Xfam%04Xmod0000:feature:", c.Arch,
			c.Vendor, c.Family))
	}
}

func (w *sysfsMaker) function(d *topology.Function) {
	if d.Root == "" && w.err == nil {
		w.err = fmt.Errorf("%s has no PCIe root", d.Address)
	}

	at := []string{"devices", d.Root.String()}
	for _, bridge := range d.Bridges {
		at = append(at, bridge.String())
	}

	dir := path.Join(append(at, d.Address.String())...)
	w.link(path.Join(pciDevices, d.Address.String()), dir)

	w.file(dir, "class", fmt.Sprintf("%#06x", d.Class))
	w.file(dir, "vendor", fmt.Sprintf("%#04x", d.Vendor))
	w.file(dir, "device", fmt.Sprintf("%#04x", d.Device))
	node := "-1"
	if _, isKnown := d.Node.Node(); isKnown {
		node = d.Node.String()
	}

	w.file(dir, "numa_node", node)

	if d.MaxLink != nil {
		w.file(dir, "max_link_speed", fmt.Sprintf("%.1f GT/s PCIe", d.MaxLink.Speed))
		w.file(dir, "max_link_width", strconv.Itoa(d.MaxLink.Width))
	}

	if d.IOMMUGroup != nil {
		w.link(path.Join(dir, "iommu_group"),
			path.Join("kernel/iommu_groups", strconv.Itoa(*d.IOMMUGroup)))
	}

	if d.BARs != nil {
		w.file(dir, "resource", strings.Join(topology.Map(d.BARs, resourceLine), "\n"))
	}

	// An empty file says that the function has no such capability, no file that it is not known.
	if d.Details != nil && d.Details.ExtendedConfig {
		w.add(path.Join(dir, listedFile), 0o444, list(d.Details))
	}

	if d.Driver != "" {
		w.link(path.Join(dir, "driver"), path.Join("bus/pci/drivers", d.Driver))
	}
}

// link adds a link with its shortest target, as the kernel does.
func (w *sysfsMaker) link(name, target string) {
	relative, err := filepath.Rel(path.Dir(name), target)
	if w.err == nil {
		w.err = err
	}
	w.add(name, fs.ModeSymlink|0o777, filepath.ToSlash(relative))
}

func (w *sysfsMaker) add(name string, mode fs.FileMode, data string) {
	if w.err == nil {
		w.err = w.files.add(name, mode, data)
	}
}

// resourceLine returns the line of a BAR: start, end and flags (include/linux/ioport.h). One with an
// address is at its own size, where it is aligned.
func resourceLine(b topology.BAR) string {
	const io, memory, is64, isUnset = 0x100, 0x200, 0x100000, 0x20000000
	start, flags := b.Bytes, memory
	if b.IO {
		flags = io
	}

	if b.Is64 {
		flags |= is64
	}

	if b.Unassigned {
		start, flags = 0, flags|isUnset
	}

	return fmt.Sprintf("%#016x %#016x %#016x", start, start+b.Bytes-1, flags)
}
