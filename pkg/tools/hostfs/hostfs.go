// Package hostfs makes the sysfs of a host from a few lines, so that a test or a golden case can
// show the whole host that it is about.
//
// Each line is a path under /sys/devices with the attributes of its last part; the
// bridges above it are made as needed:
//
//	cpus 0 0-3
//	cpus 1 4-7
//	packages 2
//	cpu x86,ven0002fam0019mod0011
//	kernel 6.8.0-45-generic
//	arguments intel_iommu=on pci=noats
//	iommu dmar0 intel-iommu/ecap=f020df
//	pci0000:00/0000:00:01.0/0000:01:00.0 node=0 group=7 driver=vfio-pci class=0x030000 io
//	pci0000:00/0000:00:01.0/0000:01:00.0/4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01 type=nvidia-222
//	virtual/mtty/mtty/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001
//
// A path that begins with a device is under the line above it that is indented less, and has its
// node unless it has its own. So a machine with switches is written as a tree:
//
//	pci0000:16 node=0
//	  0000:16:01.0 bridge maxlink=16.0x16
//	    0000:17:00.0 bridge ids=1000:c030
//	      0000:18:00.0 bridge
//	        0000:19:00.0 gpu ids=10de:2330 maxlink=32.0x16
//	      0000:18:01.0 bridge
//	        0000:1a:00.0 nic ids=15b3:1021
//
// Keys of a function: node, group, driver, class, vendor, device, ids (both), physfn, and of a
// physical one numvfs. The words bridge, gpu and nic give it class and driver: those of a port, or
// of a device for VMs. The word io gives it an I/O BAR; bar=37,25 gives it memory BARs of 2^37 and
// 2^25 bytes instead of one of 16 MiB, low=24 one below 4 GiB, of 2^24 bytes. The word conventional
// makes it a conventional PCI device. Without node there is no file numa_node; node=-1 is what the
// kernel writes for no node. Keys of a mediated device: type, group.
//
// Keys for doctor: link=16.0x8 and maxlink=32.0x16 are GT/s and lanes; reset=flr,bus are reset
// methods, reset= is an empty file; acs=sv,tb,rr,cr,uf,ec,dt are the controls that are on, and
// acs=default those that Linux turns on, sv,rr,cr,uf; with acs=off none is on, with acs=nopeers
// only sv and tb can be (a root port that passes nothing to others), with acs=none there is no such
// capability; ats is on, off or none; atomics=routing,32,64,128 are the AtomicOps that a function
// passes on or completes, and with blocked it passes none on all the same. These make a
// configuration space as root sees it.
// packages N gives the host N CPU packages of one CPU each, cpu MODEL their modalias.
//
// Keys for vGPUs: mdevtype=nvidia-232:GRID_T4-8Q:1:2 is a type of mediated device
// with its name, available instances and maximum, and may be repeated;
// creatable=1428:NVIDIA_H200X-141C makes a virtual function of NVIDIA's driver that
// can create these types, with vgpu=1428 it has one. In names _ is a space.
package hostfs

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"

	"hook-sidecar/pkg/words/lazyregexp"
)

// Files is a sysfs in memory. Each directory is in the map, so that it is found and listed, and the
// lack of a file noticed, without looking at all others as fstest does.
type Files struct {
	fstest.MapFS
	kernel string
	names  map[string][]string // what is in each directory, sorted
}

// Kernel returns the release of the host's kernel, as package host asks for it.
func (f Files) Kernel() string { return f.kernel }

// Lstat implements fs.ReadLinkFS.
func (f Files) Lstat(name string) (fs.FileInfo, error) {
	if f.lacks(name) {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return f.MapFS.Lstat(name)
}

// ReadLink implements fs.ReadLinkFS.
func (f Files) ReadLink(name string) (string, error) {
	if f.lacks(name) {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrNotExist}
	}
	return f.MapFS.ReadLink(name)
}

// ReadDir implements fs.ReadDirFS.
func (f Files) ReadDir(name string) ([]fs.DirEntry, error) {
	names, isDirectory := f.names[name]
	if !isDirectory {
		return f.MapFS.ReadDir(name) // by a link, or none
	}

	entries := make([]fs.DirEntry, len(names))
	for i, base := range names {
		info, err := f.MapFS.Lstat(path.Join(name, base))
		if err != nil {
			return nil, err
		}
		entries[i] = fs.FileInfoToDirEntry(info)
	}

	return entries, nil
}

// lacks reports whether a file is missing in a directory that is no link.
func (f Files) lacks(name string) bool {
	dir := f.MapFS[path.Dir(name)]
	return dir != nil && dir.Mode.IsDir() && f.MapFS[name] == nil
}

// Leaves returns the files and links, without directories.
func (f Files) Leaves() fstest.MapFS {
	leaves := maps.Clone(f.MapFS)
	maps.DeleteFunc(leaves, func(_ string, file *fstest.MapFile) bool { return file.Mode.IsDir() })
	return leaves
}

// Error is a line that cannot be read.
type Error struct {
	Line int // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("host line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Parse makes the sysfs that the text describes. The error is an *Error.
func Parse(text string) (Files, error) {
	h := host{fstest.MapFS{}, map[string]bool{}}
	kernel := ""
	var open outline
	for i, line := range strings.Split(text, "\n") {
		fields := open.complete(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}

		if fields[0] == "kernel" && len(fields) == 2 {
			kernel = fields[1]
			continue
		}

		if err := h.add(fields); err != nil {
			return Files{}, &Error{Line: i + 1, Err: err}
		}
	}

	if len(h.nodes) > 0 {
		var online []string
		for n := range 1024 {
			if h.nodes[fmt.Sprint(n)] {
				online = append(online, fmt.Sprint(n))
			}
		}

		h.file("devices/system/node/online", strings.Join(online, ","))
	}

	// Directories come from the files in them, so after all files. One that is there has all
	// above it.
	for name := range maps.Clone(h.files) {
		for dir := path.Dir(name); dir != "." && h.files[dir] == nil; dir = path.Dir(dir) {
			h.files[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o555}
		}
	}

	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		dir := path.Dir(name)
		names[dir] = append(names[dir], path.Base(name))
	}

	return Files{h.files, kernel, names}, nil
}

// outline is the lines that a line is under, the outermost first.
type outline []struct {
	indent     int
	path, node string
}

// complete returns the fields of a line, with the path and the node of what it is under.
func (o *outline) complete(line string) []string {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return nil
	}

	// Lines that are indented as far as this one, or further, are not above it.
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	for len(*o) > 0 && (*o)[len(*o)-1].indent >= indent {
		*o = (*o)[:len(*o)-1]
	}

	node := ""
	for _, field := range fields {
		if value, isNode := strings.CutPrefix(field, "node="); isNode {
			node = value
		}
	}

	first, _, _ := strings.Cut(fields[0], "/")
	if len(*o) > 0 && (function.MatchString(first) || mediated.MatchString(first)) {
		above := (*o)[len(*o)-1]
		fields[0] = above.path + "/" + fields[0]
		if node == "" && above.node != "" {
			node = above.node
			fields = append(fields, "node="+node)
		}
	}

	*o = append(*o, outline{{indent, fields[0], node}}...)
	return fields
}

type host struct {
	files fstest.MapFS
	nodes map[string]bool
}

var (
	root     = lazyregexp.New(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	function = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	mediated = lazyregexp.New(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

func (h host) add(fields []string) error {
	if fields[0] == "cpus" {
		if len(fields) != 3 {
			return fmt.Errorf("invalid cpus: want cpus NODE LIST")
		}

		h.nodes[fields[1]] = true
		h.file("devices/system/node/node"+fields[1]+"/cpulist", fields[2])
		return nil
	}

	if fields[0] == "packages" && len(fields) == 2 {
		return h.packages(fields[1])
	}

	if fields[0] == "arguments" {
		h.file("kernel/arguments", strings.Join(fields[1:], " "))
		return nil
	}

	if fields[0] == "iommu" && len(fields) == 3 {
		file, value, _ := strings.Cut(fields[2], "=")
		h.link("class/iommu/"+fields[1], "devices/virtual/iommu/"+fields[1])
		h.file("devices/virtual/iommu/"+fields[1]+"/"+file, value)
		return nil
	}

	if fields[0] == "cpu" && len(fields) == 2 {
		h.file("devices/system/cpu/modalias", "cpu:type:"+fields[1]+":feature:,0000,0001")
		return nil
	}

	device := fields[0]
	if root.MatchString(device) {
		return nil // for the lines under it
	}

	h.bridgesAbove(device)

	switch name := path.Base(device); {
	case function.MatchString(name):
		return h.function(device, fields[1:])
	case mediated.MatchString(name):
		return h.mediated(device, fields[1:])
	}

	return fmt.Errorf("invalid path %q: want a PCI address or a UUID at its end", device)
}

func (h host) function(device string, settings []string) error {
	dir := "devices/" + device
	h.link("bus/pci/devices/"+path.Base(device), dir)
	values := map[string]string{"class": "0x030200", "vendor": "0x10de", "device": "0x2330"}
	bars := []string{memoryBAR(24)}
	diagnosis := map[string]string{}

	// Settings are read in their order, so a key after a word changes what the word has said.
	for _, setting := range settings {
		key, value, isPair := strings.Cut(setting, "=")
		switch {
		case setting == "io":
			bars = append(bars, "0x000000000000e000 0x000000000000e07f 0x0000000000040101")
		case setting == "conventional":
			h.files[dir+"/config"] = &fstest.MapFile{Data: make([]byte, 256), Mode: 0o444}
		case words[setting] != nil:
			maps.Copy(values, words[setting])
		case !isPair:
			return fmt.Errorf("invalid attribute %q: want key=value", setting)
		case key == "node":
			h.file(dir+"/numa_node", value)
		case key == "group":
			h.group(dir, value)
		case key == "ids":
			values["vendor"], values["device"], _ = strings.Cut("0x"+value, ":")
			values["device"] = "0x" + values["device"]
		case key == "bar":
			var err error
			if bars, err = largeBARs(value); err != nil {
				return err
			}

		case key == "low":
			bar, err := lowBAR(value)
			if err != nil {
				return err
			}
			bars = append(bars, bar)

		case key == "mdevtype":
			if err := h.mdevType(dir, value); err != nil {
				return err
			}

		case slices.Contains([]string{
			"link", "maxlink", "reset", "acs", "ats", "atomics", "vgpu", "creatable",
		}, key):
			diagnosis[key] = value

		case key == "numvfs":
			h.file(dir+"/sriov_numvfs", value)
		case key == "physfn":
			h.link(dir+"/physfn", path.Dir(dir)+"/"+value)
		default:
			values[key] = value
		}
	}

	for _, key := range []string{"class", "vendor", "device"} {
		h.file(dir+"/"+key, values[key])
	}

	if driver := values["driver"]; driver != "" {
		h.link(dir+"/driver", "bus/pci/drivers/"+driver)
	}

	if values["class"] != classBridge {
		bars = append(bars, slices.Repeat([]string{noBAR}, 13-len(bars))...)
		h.file(dir+"/resource", strings.Join(bars, "\n"))
	}

	return h.diagnosis(dir, diagnosis)
}

// classBridge is the class of a PCI-to-PCI bridge, and of a port of PCI Express.
const classBridge = "0x060400"

// words are what a word says of a function.
var words = map[string]map[string]string{
	"bridge": {"class": classBridge, "driver": "pcieport", "vendor": "0x0000", "device": "0x0000"},
	"gpu":    {"class": "0x030200", "driver": "vfio-pci"},
	"nic":    {"class": "0x020000", "driver": "vfio-pci"},
}

// largeBARs returns lines of a resource file: a BAR of 2^bits bytes for each number,
// and the empty line of its upper half after each.
func largeBARs(list string) ([]string, error) {
	var lines []string
	for digits := range strings.SplitSeq(list, ",") {
		bits, err := strconv.Atoi(digits)
		if err != nil || bits < 4 || bits > 43 || len(lines) > 4 {
			return nil, fmt.Errorf("invalid bar=%s: want up to 3 numbers between 4 and 43", list)
		}
		lines = append(lines, memoryBAR(bits), noBAR)
	}

	return lines, nil
}

// lowBAR returns a line of a resource file: a 32-bit BAR of 2^bits bytes.
func lowBAR(digits string) (string, error) {
	bits, err := strconv.Atoi(digits)
	if err != nil || bits < 4 || bits > 30 {
		return "", fmt.Errorf("invalid low=%s: want a number between 4 and 30", digits)
	}

	const start = 0xc0000000
	return fmt.Sprintf("0x%016x 0x%016x 0x0000000000040200", start, start+1<<bits-1), nil
}

const noBAR = "0x0000000000000000 0x0000000000000000 0x0000000000000000"

// memoryBAR returns a line of a resource file: a 64-bit prefetchable BAR of 2^bits bytes, aligned
// to its size.
func memoryBAR(bits int) string {
	const start = 0x380000000000
	return fmt.Sprintf("0x%016x 0x%016x 0x000000000014220c", start, start+1<<bits-1)
}

func (h host) mediated(device string, settings []string) error {
	dir := "devices/" + device
	h.link("bus/mdev/devices/"+path.Base(device), dir)
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		switch key {
		case "type":
			h.link(dir+"/mdev_type", path.Dir(dir)+"/mdev_supported_types/"+value)
		case "group":
			h.group(dir, value)
		default:
			return fmt.Errorf("unknown key %q of a mediated device", key)
		}
	}

	return nil
}

// bridgesAbove makes the bridges of a path, which are above its last part.
func (h host) bridgesAbove(device string) {
	for above := path.Dir(device); above != "." && above != "/"; above = path.Dir(above) {
		link := "bus/pci/devices/" + path.Base(above)
		if !function.MatchString(path.Base(above)) || h.files[link] != nil {
			continue
		}

		h.link(link, "devices/"+above)
		h.file("devices/"+above+"/class", classBridge)
		h.link("devices/"+above+"/driver", "bus/pci/drivers/pcieport")
	}
}

func (h host) group(dir, number string) {
	h.link(dir+"/iommu_group", "kernel/iommu_groups/"+number)
	h.link("kernel/iommu_groups/"+number+"/devices/"+path.Base(dir), dir)
}

func (h host) file(name, content string) {
	h.files[name] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444}
}

// link makes a relative symbolic link, as sysfs has them.
func (h host) link(name, target string) {
	up := strings.Repeat("../", strings.Count(name, "/"))
	h.files[name] = &fstest.MapFile{Data: []byte(up + target), Mode: fs.ModeSymlink | 0o777}
}
