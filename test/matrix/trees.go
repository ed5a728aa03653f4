package matrix

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// RandomHost is a host in the format of package hostfs, and its devices that a VM
// gets.
type RandomHost struct {
	Text    string   // for hostfs
	Devices []string // PCI addresses and UUIDs in random order
	NUMA    GuestNUMA
}

// grower makes a random host. Bus numbers are counted per PCI domain, so that
// several domains have the same ones.
type grower struct {
	*rand.Rand
	lines     strings.Builder
	buses     map[string]int
	devices   []string
	remaining int // devices to make
}

// NewRandomHost returns the host of a seed: 1 to 4 nodes, several roots per node in several PCI
// domains, VMD; under them devices directly on the root complex, root ports, switches with 1 to 6
// ports to a depth of 3, functions, virtual functions and mediated devices; nodes that are -1 or
// missing; devices that the host does not have; guests with fewer cells than nodes.
func NewRandomHost(seed uint64) RandomHost {
	g := &grower{Rand: rand.New(rand.NewPCG(seed, 3)), buses: map[string]int{}}
	g.remaining = 1 + g.IntN(24)
	nodes := 1 + g.IntN(4)
	for n := range nodes {
		fmt.Fprintf(&g.lines, "cpus %d %d-%d\n", n, 8*n, 8*n+7)
	}

	for g.remaining > 0 {
		g.root(g.node(nodes))
	}

	if g.IntN(4) == 0 {
		g.devices = append(g.devices, fmt.Sprintf("0000:%02x:1f.0", g.bus("0000")))
	}

	g.Shuffle(len(g.devices), func(i, j int) {
		g.devices[i], g.devices[j] = g.devices[j], g.devices[i]
	})

	return RandomHost{Text: g.lines.String(), Devices: g.devices, NUMA: g.cells(nodes)}
}

// node returns the node of the functions under a root: a number, -1 or no file.
func (g *grower) node(nodes int) string {
	switch g.IntN(10) {
	case 0:
		return " node=-1"
	case 1:
		return ""
	}

	return fmt.Sprintf(" node=%d", g.IntN(nodes))
}

// cells returns a guest's cells: one per node; fewer, the last with the memory of several nodes;
// fewer, with nodes on which no cell has memory; or none.
func (g *grower) cells(nodes int) GuestNUMA {
	var numa GuestNUMA
	count := 1 + g.IntN(nodes)
	if g.IntN(12) == 0 {
		return nil
	}

	for c := range count {
		numa = append(numa, []int{c})
	}

	if g.IntN(2) == 0 {
		for n := count; n < nodes; n++ {
			numa[count-1] = append(numa[count-1], n)
		}
	}

	return numa
}

func (g *grower) bus(domain string) int {
	g.buses[domain]++
	return g.buses[domain]
}

// root makes a host bridge with everything under it.
func (g *grower) root(node string) {
	domain, path := "0000", ""
	switch g.IntN(6) {
	case 0:
		domain = "0001"
	case 1: // VMD: a host bridge under an endpoint of another
		above := g.bus("0000")
		domain, path = "10000", fmt.Sprintf("pci0000:%02x/0000:%02x:05.5/", above, above)
	}

	bus := g.bus(domain)
	path += fmt.Sprintf("pci%s:%02x", domain, bus)
	for port := range 1 + g.IntN(3) {
		// Two root ports may be functions of one device.
		at := fmt.Sprintf("%s/%s:%02x:%02x.%x", path, domain, bus, 1+port/2, port%2)
		switch g.IntN(6) {
		case 0:
			g.endpoint(fmt.Sprintf("%s/%s:%02x:%02x", path, domain, bus, 0x10+port), node)
		case 1, 2:
			g.device(at, domain, node)
		default:
			g.branch(at, domain, node, 1)
		}
	}
}

// branch makes a switch under a port.
func (g *grower) branch(port, domain, node string, depth int) {
	upstream := fmt.Sprintf("%s/%s:%02x:00.0", port, domain, g.bus(domain))
	inner := g.bus(domain)
	if g.IntN(5) == 0 { // an endpoint beside the downstream ports, such as a management function
		g.endpoint(fmt.Sprintf("%s/%s:%02x:1e", upstream, domain, inner), node)
	}

	for n := range 1 + g.IntN(6) {
		downstream := fmt.Sprintf("%s/%s:%02x:%02x.0", upstream, domain, inner, n)
		switch {
		case depth < 3 && g.IntN(3) == 0:
			g.branch(downstream, domain, node, depth+1)
		case g.IntN(5) > 0:
			g.device(downstream, domain, node)
		}
	}
}

// device makes what is plugged into a port.
func (g *grower) device(port, domain, node string) {
	g.endpoint(fmt.Sprintf("%s/%s:%02x:00", port, domain, g.bus(domain)), node)
}

// endpoint makes a device: one function, several, virtual functions of one that
// stays on the host, or mediated devices of one.
func (g *grower) endpoint(slot, node string) {
	kind := g.IntN(10)
	switch {
	case kind < 6:
		g.function(slot+".0", node, true)
	case kind < 8:
		first := g.IntN(2) // 1: the VM does not get function 0
		g.function(slot+".0", node, first == 0)
		for f := range 1 + g.IntN(3) {
			g.function(fmt.Sprintf("%s.%x", slot, 1+f), node, g.IntN(4) > 0)
		}

	case kind == 8:
		g.function(slot+".0", node, false)
		dir, name := slot[:strings.LastIndex(slot, "/")], slot[strings.LastIndex(slot, "/")+1:]
		for v := range 1 + g.IntN(4) {
			// Functions continue in other device numbers (ARI), of their own for each of three on
			// one bus.
			vf := fmt.Sprintf("%s.%x", name, 1+v)
			if v > 1 {
				vf = fmt.Sprintf("%s%02x.%x", name[:len(name)-2],
					0x18+2*int(name[len(name)-1]%4)+g.IntN(2), v)
			}

			g.function(dir+"/"+vf, node+" physfn="+name+".0", true)
		}

	default:
		g.function(slot+".0", node, false)
		for range 1 + g.IntN(3) {
			uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", g.Uint32(), g.Uint32())
			fmt.Fprintf(&g.lines, "%s.0/%s type=nvidia-222\n", slot, uuid)
			g.take(uuid)
		}
	}
}

func (g *grower) function(path, node string, taken bool) {
	fmt.Fprintf(&g.lines, "%s%s driver=vfio-pci\n", path, g.stray(node))
	if taken {
		g.take(path[strings.LastIndex(path, "/")+1:])
	}
}

// stray sometimes returns another node than that of the root's other devices, or none:
// firmware may give a device a node of its own (_PXM).
func (g *grower) stray(node string) string {
	switch _, physfn, _ := strings.Cut(node, " physfn="); {
	case physfn != "":
		return node
	case g.IntN(20) == 0:
		return " node=-1"
	case g.IntN(30) == 0:
		return " node=0"
	}

	return node
}

func (g *grower) take(id string) {
	g.remaining--
	g.devices = append(g.devices, id)
}
