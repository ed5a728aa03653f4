// Package fit counts how often a VM with passthrough devices fits on each node of a cluster,
// and says how near to each other its devices would be, on the host and in the guest. Devices
// of Dynamic Resource Allocation are allocated by the scheduler's own code
// (k8s.io/dynamic-resource-allocation, structured), so the scheduler will
// do the same. input.go has the objects and the VM, node.go a node with what it
// offers and why a VM does not fit. The package reads no cluster.
package fit

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
)

// Answer says how often a VM fits.
type Answer struct {
	SchemaVersion int      `json:"schemaVersion"` // 1; it rises when a field is removed or changes its meaning
	VM            string   `json:"vm"`            // its name
	Now           int      `json:"now"`           // how many such VMs fit beside what runs
	Empty         int      `json:"empty"`         // how many would if nothing ran
	Nodes         []Node   `json:"nodes"`         // by name
	Notes         []string `json:"notes"`         // why the claim is not stricter, and which nodes were not read
}

// Node is the answer for a node.
type Node struct {
	Name    string        `json:"name"`    // of the node
	Now     int           `json:"now"`     // how many such VMs fit beside what runs
	Empty   int           `json:"empty"`   // how many would if nothing ran
	Pairs   Pairs         `json:"pairs"`   // pairs of the devices of the next VM, by path type; of the first on the empty node where none fits now
	Layout  policy.Layout `json:"layout"`  // that the hook would choose for them; "" without any
	Guest   Pairs         `json:"guest"`   // their pairs in a guest of that layout, with a NUMA cell per NUMA node
	Plugins *Bounds       `json:"plugins"` // what kubelet may give of device plugins' resources; null where the node's host was not read, or has more than 20 of them
	Why     string        `json:"why"`     // why none fits now; "" where one does
	Devices []Device      `json:"devices"` // by NUMA node and PCIe root
}

// Count answers for each node.
func (f *Fleet) Count(ctx context.Context, s Shape) (Answer, error) {
	answer := Answer{SchemaVersion: 1, VM: s.Name, Nodes: []Node{}, Notes: []string{}}
	var unread []string
	for _, of := range f.Nodes {
		n, err := f.node(of).answer(ctx, s)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return answer, err
		}
		if n.Empty > 0 && len(s.Devices) > 0 && f.Hosts[n.Name] == nil {
			unread = append(unread, n.Name)
		}
		answer.Nodes = append(answer.Nodes, n)
		answer.Now += n.Now
		answer.Empty += n.Empty
	}
	if len(unread) > 0 {
		answer.Notes = append(answer.Notes, "not read, so how near the devices of plugins would be is unknown: node "+topology.FirstOf(unread, 10, ", "))
	}
	slices.SortFunc(answer.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return answer, nil
}

func (n *node) answer(ctx context.Context, s Shape) (Node, error) {
	empty, first, never := n.count(ctx, s, true)
	now, given, why := n.count(ctx, s, false)
	out := Node{Name: n.Name, Now: now, Empty: empty, Pairs: Pairs{}, Guest: Pairs{}, Plugins: n.bounds(s.Devices), Devices: n.devices}
	if now == 0 {
		given, out.Why = first, why
	}
	if empty == 0 {
		out.Why = never
	}
	var ids []topology.DeviceID
	for i, d := range n.devices {
		request, isGiven := given[d.id]
		if isGiven && now > 0 {
			n.devices[i].State, n.devices[i].By = taken, request
		}
		if isGiven && d.Address != "" && !slices.Contains(ids, d.pci) {
			ids = append(ids, d.pci)
		}
	}
	return out.near(n.host, ids)
}

// count allocates for one VM after the other until one does not fit. It returns how many do,
// the requests for which the first is given its devices, and why not one more fits.
func (n *node) count(ctx context.Context, s Shape, isEmpty bool) (int, map[structured.DeviceID]string, string) {
	inUse := sets.New[structured.DeviceID]()
	for _, d := range n.devices {
		if d.State == used && !isEmpty {
			inUse.Insert(d.id)
		}
	}
	room, why := n.room(s, isEmpty)
	if len(s.Claims) == 0 {
		return room, nil, why
	}
	var first map[structured.DeviceID]string
	for times := range room {
		given, why := n.allocate(ctx, s.Claims, inUse)
		if why != "" {
			return times, first, why
		}
		if times == 0 {
			first = given
		}
	}
	return room, first, why
}

// Pairs are numbers of pairs of devices by path type.
type Pairs map[topology.PathType]int

func pairs(tree *topology.Tree, ids []topology.DeviceID) Pairs {
	p := Pairs{}
	for i, a := range ids {
		for _, b := range ids[:i] {
			p[tree.PathType(a, b)]++
		}
	}
	return p
}

// String lists the pairs, the nearest first.
func (p Pairs) String() string {
	var parts []string
	for t := topology.PIX; t <= topology.SYS; t++ {
		if p[t] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p[t], t))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// distance is the sum of the path types.
func (p Pairs) distance() int {
	sum := 0
	for t, count := range p {
		sum += int(t) * count
	}
	return sum
}

// near returns the answer with the pairs of devices, on the node and in a guest with the hook, and its
// layout: what the planner makes of a VM with a guest NUMA cell per NUMA node.
func (out Node) near(host *topology.Host, ids []topology.DeviceID) (Node, error) {
	d, nodes := &domain.Domain{Arch: "x86_64", Machine: "q35"}, []topology.NodeID{}
	for _, id := range ids {
		d.Hostdevs = append(d.Hostdevs, domain.Hostdev{ID: id})
		if node, isKnown := host.Affinity(id).Node(); isKnown {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	for i, node := range slices.Compact(nodes) {
		d.Cells = append(d.Cells, domain.Cell{ID: topology.CellID(i)})
		d.Memnodes = append(d.Memnodes, domain.Memnode{Cell: topology.CellID(i), Nodeset: fmt.Sprint(node)})
	}
	wanted, _, err := policy.Resolve(policy.Source{}) // the defaults
	if err != nil || len(ids) == 0 {
		return out, err
	}
	plan, err := placement.New(placement.Input{Domain: d, Host: host, Policy: wanted})
	if err == nil {
		out.Layout, out.Pairs, out.Guest = plan.Layout, pairs(plan.HostTree, ids), pairs(plan.GuestTree, ids)
	}
	return out, err
}

// Bounds are the nearest and the furthest devices that a VM may be given.
type Bounds struct {
	Best    Pairs  `json:"best"`    // pairs of the nearest devices, by path type
	Worst   Pairs  `json:"worst"`   // of the furthest
	OneNode *Pairs `json:"oneNode"` // of the furthest with topology manager policy single-numa-node; null where it refuses the VM
}

// bounds returns the bounds of sets with so many devices of each driver, or of each resource of
// a device plugin, of those that are free; nil without any, with too many, or where there are not enough.
func (n *node) bounds(counts map[string]int) *Bounds {
	var ids []topology.DeviceID
	drivers := map[topology.DeviceID]string{}
	for _, d := range n.devices {
		if counts[d.Driver] > 0 && d.Address != "" && d.State == free && drivers[d.pci] == "" { // which may have several devices of a slice
			ids, drivers[d.pci] = append(ids, d.pci), d.Driver
		}
	}
	if len(ids) == 0 || len(ids) > 20 { // the search tries each set of devices
		return nil
	}
	tree, all := n.host.Tree(ids), []Pairs{}
	for set := range 1 << len(ids) {
		chosen, given := []topology.DeviceID{}, map[string]int{}
		for i, id := range ids {
			if set>>i&1 == 1 {
				chosen = append(chosen, id)
				given[drivers[id]]++
			}
		}
		if maps.Equal(given, counts) {
			all = append(all, pairs(tree, chosen))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(p, q Pairs) int { return cmp.Compare(p.distance(), q.distance()) })
	b := &Bounds{Best: all[0], Worst: all[len(all)-1]}
	for i, p := range all {
		if p[topology.SYS] == 0 {
			b.OneNode = &all[i]
		}
	}
	return b
}

// Given returns which claim, request and driver gave each device to a pod that runs on a node,
// and which pairs it could have with devices of these drivers that are free or its own; "" where
// none are nearer.
func (f *Fleet) Given(node, namespace, pod string) (given map[topology.DeviceID]string, nearer string) {
	n, given, counts := f.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}), map[topology.DeviceID]string{}, map[string]int{}
	isPod := func(r resourceapi.ResourceClaimConsumerReference) bool { return r.Resource == "pods" && r.Name == pod }
	for i, d := range n.devices {
		if c := f.users[d.id]; c != nil && c.Namespace == namespace && slices.ContainsFunc(c.Status.ReservedFor, isPod) && d.Address != "" {
			name, request := cmp.Or(c.Annotations[resourceapi.PodResourceClaimAnnotation], c.Name), requests(c.Status.Allocation)[d.id]
			given[d.pci] = fmt.Sprintf("claim %s, request %s, driver %s", name, request, d.Driver)
			counts[d.Driver]++
			n.devices[i].State = free // to be given another
		}
	}
	ids := slices.Collect(maps.Keys(given))
	bounds, now := n.bounds(counts), pairs(n.host.Tree(ids), ids)
	if bounds != nil && bounds.Best.distance() < now.distance() {
		nearer = fmt.Sprintf("%s in place of %s", bounds.Best, now)
	}
	return given, nearer
}

//go:embed text.tmpl
var templates string

// text executes a template, and aligns its columns.
func text(name string, data any) string {
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	all := template.Must(template.New("").Funcs(template.FuncMap{"printable": topology.Printable}).Parse(templates))
	if err := cmp.Or(all.ExecuteTemplate(columns, name, data), columns.Flush()); err != nil {
		panic(err) // a template does not know its data
	}
	return b.String()
}

// Text returns the answer as a line per node, and where it is one a picture of it.
func (a Answer) Text() string { return text("table", a) }
