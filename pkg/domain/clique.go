package domain

import (
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// Clique is the property x-nv-gpudirect-clique that qemu:override gives a device: existing, or
// to be added by Apply.
type Clique struct {
	Alias  string // of the device
	Number int    // -1 where QEMU would refuse the value
	// Own is true for one that Apply has added, recognised by its redundant remove of the
	// property: libvirt keeps it, and it has no effect.
	Own bool
}

// Cliques returns the cliques of qemu:override, in document order.
func (d *Domain) Cliques() []Clique { return fragmentsOf[Clique](d.Fragments) }

// CliqueMark is the mark of cliques that Apply may add, replace and remove.
const CliqueMark Mark = cliqueProperty

// Mark returns CliqueMark for the hook's own.
func (c Clique) Mark() Mark {
	if c.Own {
		return CliqueMark
	}
	return ""
}

// MaxClique is the highest value of QEMU's property (hw/vfio/pci-quirks.c,
// set_nv_gpudirect_clique_id).
const (
	MaxClique      = 15
	cliqueProperty = "x-nv-gpudirect-clique" // hw/vfio/pci.c
)

var cliqueKind = kind{read: readCliques, place: placeOverrides[Clique]}

func readCliques(r *reader, root *xmledit.Element) {
	for device := range all(root, "qemu:override", "qemu:device") {
		set := cliqueProperties(device)
		if len(set) == 0 {
			continue
		}

		clique := Clique{Alias: device.Value("alias"), Number: -1}

		// libvirt takes the properties in their order, so the last one counts.
		last := set[len(set)-1]
		if n, ok := number(last.Value("value"), 10); ok && n <= MaxClique {
			clique.Number = int(n)
		}

		// The hook's own is a remove without effect and the value, and nothing beside these.
		frontends := device.Children
		clique.Own = len(set) == 2 && set[0].Value("type") == "remove" &&
			last.Value("type") == "unsigned" &&
			len(frontends) == 1 && len(frontends[0].Children) == 2

		r.fragment(clique, device)
	}
}

// CommandLineClique reports whether qemu:commandline names the property.
func (d *Domain) CommandLineClique() bool {
	return slices.ContainsFunc(d.Args, func(arg string) bool {
		return strings.Contains(arg, cliqueProperty)
	})
}

// cliqueProperties returns the properties of that name in a device of qemu:override.
func cliqueProperties(device *xmledit.Element) []*xmledit.Element {
	properties := slices.Collect(all(device, "qemu:frontend", "qemu:property"))
	return slices.DeleteFunc(properties, func(p *xmledit.Element) bool {
		return p.Value("name") != cliqueProperty
	})
}

// replace adds the clique after all others.
func (c Clique) replace(e *editor, at []*xmledit.Element) { e.replaceOverride(c, at) }

// printOverride prints the clique.
func (c Clique) printOverride(prefix string) string {
	return overridden(prefix, c.Alias,
		property{cliqueProperty, "remove", ""},
		property{cliqueProperty, "unsigned", strconv.Itoa(c.Number)})
}
