package domain

import (
	"fmt"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// Clique is the property x-nv-gpudirect-clique that qemu:override gives a device:
// existing, or to be added by Apply.
type Clique struct {
	Alias  string // of the device
	Number int    // -1 where QEMU would not take the value
	// Own is true for one that Apply has added. It removes the property before it
	// sets it, which changes nothing, which libvirt keeps, and which nobody else
	// writes.
	Own bool
}

// cliqueProperty is the name of QEMU's property (hw/vfio/pci.c), and mostClique its
// highest value (hw/vfio/pci-quirks.c, set_nv_gpudirect_clique_id).
const (
	cliqueProperty = "x-nv-gpudirect-clique"
	mostClique     = 15
)

func (r *reader) cliques(root *xmledit.Element) error {
	d := r.domain
	for device := range qemu(root, "override", "device") {
		set := cliqueProperties(device)
		if len(set) == 0 {
			continue
		}
		clique := Clique{Alias: device.Value("alias"), Number: -1}
		last := set[len(set)-1]
		if n, ok := number(last.Value("value"), 10); ok && n <= mostClique {
			clique.Number = int(n)
		}
		frontends := device.Children
		clique.Own = len(set) == 2 && set[0].Value("type") == "remove" && last.Value("type") == "unsigned" &&
			len(frontends) == 1 && len(frontends[0].Children) == 2
		d.Cliques = append(d.Cliques, clique)
		d.doc.cliques = append(d.doc.cliques, device)
	}
	for e := range qemu(root, "commandline", "arg") {
		d.CommandLineClique = d.CommandLineClique || strings.Contains(e.Value("value"), cliqueProperty)
	}
	return nil
}

// cliqueProperties are the properties of that name in a device of qemu:override.
func cliqueProperties(device *xmledit.Element) (found []*xmledit.Element) {
	for _, frontend := range device.Children {
		for _, property := range frontend.Children {
			if frontend.Is(qemuSpace, "frontend") && property.Is(qemuSpace, "property") && property.Value("name") == cliqueProperty {
				found = append(found, property)
			}
		}
	}
	return found
}

// setCliques removes and adds devices of qemu:override, and the element itself where
// it would be empty.
func (e *editor) setCliques(c Changes) error {
	for _, clique := range c.AddCliques {
		if clique.Number < 0 || clique.Number > mostClique {
			return fmt.Errorf("add clique of %s: invalid number %d: must be between 0 and %d", clique.Alias, clique.Number, mostClique)
		}
	}
	gone := map[*xmledit.Element]bool{}
	for _, i := range c.RemoveCliques {
		gone[e.domain.doc.cliques[i]] = true
	}
	var first *xmledit.Element
	for i, override := range e.qemuElements("override") {
		if i == 0 {
			first = override
		}
		keep := override == first && len(c.AddCliques) > 0
		e.edits = append(e.edits, e.xml.RemoveChildren(override, func(device *xmledit.Element) bool { return gone[device] }, keep)...)
	}
	if len(c.AddCliques) > 0 {
		e.insertQEMU(first, "override", func(prefix string) []string { return devicesOf(prefix, c.AddCliques) })
	}
	return nil
}

// devicesOf prints devices of qemu:override, with the domain's prefix of QEMU's
// namespace.
func devicesOf(prefix string, cliques []Clique) []string {
	written := make([]string, len(cliques))
	for i, clique := range cliques {
		// libvirtxml has these elements only under the prefix that it chooses.
		written[i] = fmt.Sprintf(`<%[1]sdevice alias="%[2]s">
	<%[1]sfrontend>
		<%[1]sproperty name="%[3]s" type="remove"></%[1]sproperty>
		<%[1]sproperty name="%[3]s" type="unsigned" value="%[4]d"></%[1]sproperty>
	</%[1]sfrontend>
</%[1]sdevice>`, prefix, xmledit.Escape(clique.Alias), cliqueProperty, clique.Number)
	}
	return written
}
