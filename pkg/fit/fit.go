// Package fit counts how often a VM with passthrough devices fits on each node of a cluster,
// and says how near to each other its devices would be, on the host and in the guest. Devices
// of Dynamic Resource Allocation are allocated by the scheduler's own code
// (k8s.io/dynamic-resource-allocation, structured), so the scheduler will
// do the same. input.go has the objects and the VM, node.go a node with what it
// offers and why a VM does not fit, near.go the distances. The package reads no cluster.
package fit

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

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
	Notes         []string `json:"notes"`         // why the claim is not stricter
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
	for _, of := range f.Nodes {
		n, err := f.node(of).answer(ctx, s)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return answer, err
		}
		answer.Nodes = append(answer.Nodes, n)
		answer.Now += n.Now
		answer.Empty += n.Empty
	}
	slices.SortFunc(answer.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return answer, nil
}

func (n *node) answer(ctx context.Context, s Shape) (Node, error) {
	empty, first, never := n.count(ctx, s, sets.New[structured.DeviceID](), true)
	now, given, why := n.count(ctx, s, n.used, false)
	out := Node{Name: n.Name, Now: now, Empty: empty, Plugins: n.bounds(s.Devices, nil), Devices: n.devices}
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
	var err error
	out.Pairs = pairs(n.host.Tree(ids), ids)
	out.Layout, out.Guest, err = n.guest(ids)
	return out, err
}

// count allocates for one VM after the other until one does not fit. It returns how many do,
// the requests for which the first is given its devices, and why not one more fits.
func (n *node) count(ctx context.Context, s Shape, inUse sets.Set[structured.DeviceID], isEmpty bool) (int, map[structured.DeviceID]string, string) {
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
