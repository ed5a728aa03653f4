package matrix

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sysfs is a host's sysfs, live or a snapshot.
type Sysfs struct{ FS fs.FS }

var (
	rootName     = regexp.MustCompile(`^pci[0-9a-f]{4,8}:[0-9a-f]{2}$`)
	functionName = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// Spot is where a device stands on the host: a PCI function by its address, a
// mediated device by its UUID. It is false when the host does not show it, or
// when the parent of a mediated device is no PCI function.
func (s Sysfs) Spot(id string) (Spot, bool, error) {
	bus := "pci"
	if !strings.Contains(id, ":") {
		bus = "mdev"
	}
	link := path.Join("bus", bus, "devices", id)
	target, err := fs.ReadLink(s.FS, link)
	if err != nil {
		return Spot{}, false, nil
	}
	dir := path.Join(path.Dir(link), target)
	if bus == "mdev" {
		dir = path.Dir(dir)
	}
	if !functionName.MatchString(path.Base(dir)) {
		return Spot{}, false, nil
	}
	spot, err := s.function(dir)
	return spot, err == nil, err
}

func (s Sysfs) function(dir string) (Spot, error) {
	parts := strings.Split(dir, "/")
	at := len(parts) - 1
	for at >= 0 && !rootName.MatchString(parts[at]) {
		at--
	}
	if at < 0 {
		return Spot{}, fmt.Errorf("%s: no host bridge in the path", dir)
	}
	name := parts[len(parts)-1]
	spot := Spot{Root: parts[at], Bridges: parts[at+1 : len(parts)-1], Slot: name[:len(name)-2]}
	var err error
	spot.Node, err = s.node(dir)
	return spot, err
}

// node is the NUMA node of a function. On a host with one node everything
// stands on it, whatever the kernel says.
func (s Sysfs) node(dir string) (int, error) {
	nodes, err := s.Nodes()
	if err != nil {
		return Unknown, err
	}
	if len(nodes) == 1 {
		return nodes[0], nil
	}
	data, err := fs.ReadFile(s.FS, path.Join(dir, "numa_node"))
	if err != nil {
		return Unknown, nil // the kernel has no such file without CONFIG_NUMA
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(data)))
	return max(node, Unknown), err
}

// Nodes are the NUMA nodes of the host.
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

// Endpoints are what can be passed through: the functions on a VFIO driver and
// the mediated devices.
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
