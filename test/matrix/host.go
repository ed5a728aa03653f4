// Package matrix has hosts, real and random, and domains of guests on them. With
// package tree, its tests compare the path types of host and guest.
package matrix

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/test/tree"
)

// Sysfs is a host's sysfs, live or a snapshot.
type Sysfs struct{ FS fs.FS }

var functionName = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// Spot returns the place of a device on the host: of a PCI function by its address, of a mediated
// device by its UUID. It is false when the host does not have the device, and when the parent of a
// mediated device is not a PCI function.
func (s Sysfs) Spot(id string) (spot tree.Spot, found bool, err error) {
	dir := s.Directory(id)
	if dir == "" {
		return tree.Spot{}, false, nil
	}

	node, err := s.node(dir)
	return tree.PathSpot(dir, node), err == nil, err
}

// Directory returns the directory of a PCI function, of a mediated device that of its parent; ""
// where the host has none.
func (s Sysfs) Directory(id string) string {
	bus := "pci"
	if !strings.Contains(id, ":") {
		bus = "mdev"
	}

	link := path.Join("bus", bus, "devices", id)
	target, err := fs.ReadLink(s.FS, link)
	if err != nil {
		return ""
	}

	dir := path.Join(path.Dir(link), target)
	if bus == "mdev" {
		dir = path.Dir(dir)
	}

	if !functionName.MatchString(path.Base(dir)) {
		return ""
	}

	return dir
}

// InOrder returns devices in the order of their PCI addresses, mediated devices in that of their
// parents' and of their UUIDs.
func (s Sysfs) InOrder(ids []string) []string {
	key := func(id string) string { // PCI domains have 4 to 8 digits
		return fmt.Sprintf("%16s %s", path.Base(s.Directory(id)), id)
	}

	ordered := slices.Clone(ids)
	slices.SortFunc(ordered, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return ordered
}

// node returns the NUMA node of a function. On a host with one node every function is on it,
// whatever the kernel says.
func (s Sysfs) node(dir string) (int, error) {
	nodes, err := s.Nodes()
	if err != nil {
		return tree.Unknown, err
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}

	data, err := fs.ReadFile(s.FS, path.Join(dir, "numa_node"))
	if err != nil {
		return tree.Unknown, nil // the kernel has no such file without CONFIG_NUMA
	}

	node, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return max(node, tree.Unknown), err
}

// Nodes returns the NUMA nodes of the host.
func (s Sysfs) Nodes() ([]int, error) {
	entries, err := fs.ReadDir(s.FS, "devices/system/node")
	if err != nil {
		return nil, nil
	}

	var nodes []int
	for _, e := range entries {
		number, isNode := strings.CutPrefix(e.Name(), "node")
		if n, err := strconv.Atoi(number); isNode && err == nil {
			nodes = append(nodes, n)
		}
	}

	slices.Sort(nodes)
	return nodes, nil
}

// Endpoints returns what can be passed through: the functions on a VFIO driver and the mediated
// devices.
func (s Sysfs) Endpoints() ([]string, error) {
	var ids []string
	entries, err := fs.ReadDir(s.FS, "bus/pci/devices")
	if err != nil {
		return nil, err
	}

	for _, e := range entries {
		dir := path.Join("bus/pci/devices", e.Name())
		target, err := fs.ReadLink(s.FS, dir)
		if err != nil {
			return nil, err
		}

		dir = path.Join(path.Dir(dir), target)
		driver, err := fs.ReadLink(s.FS, path.Join(dir, "driver"))
		if err == nil && path.Base(driver) == "vfio-pci" {
			ids = append(ids, e.Name())
		}
	}

	mdevs, err := fs.ReadDir(s.FS, "bus/mdev/devices")
	if err == nil {
		for _, e := range mdevs {
			ids = append(ids, e.Name())
		}
	}

	return ids, nil
}
