package domain

import (
	"iter"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// qemuSpace is the namespace of qemu:override and qemu:commandline, whatever
// prefix the domain binds it to (libvirt docs/drvqemu.rst).
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

// references reads which PCI controllers are named from outside.
func (r *reader) references(root *xmledit.Element) error {
	for e := range all(root, "devices", "iommu", "driver") {
		index, ok, err := r.attrNumber(e, "pciBus", 10, 0, 255)
		if err != nil {
			return err
		}
		if ok {
			r.refer(int(index), "iommu")
		}
	}
	byName := r.busNames()
	for e := range qemu(root, "override", "device") {
		if index, found := busIndex(e.Value("alias"), byName); found {
			r.refer(index, "qemu:override")
		}
	}
	for e := range qemu(root, "commandline", "arg") {
		for _, word := range strings.FieldsFunc(e.Value("value"), isNoWord) {
			if index, found := busIndex(word, byName); found {
				r.refer(index, "qemu:commandline")
			}
		}
	}
	return nil
}

// refer adds a reference once.
func (r *reader) refer(index int, by string) {
	if ref := (Reference{Index: index, By: by}); !slices.Contains(r.domain.References, ref) {
		r.domain.References = append(r.domain.References, ref)
	}
}

// busNames are the aliases that the domain gives its PCI controllers.
func (r *reader) busNames() map[string]int {
	names := map[string]int{}
	for _, c := range r.domain.Controllers {
		if c.Alias != "" {
			names[c.Alias] = c.Index
		}
	}
	return names
}

// busIndex is the index of the controller with a name: its alias, or the name
// pci.N that libvirt gives those without one (src/qemu/qemu_alias.c,
// qemuAssignDeviceControllerAlias). The root bus, pcie.0, is no reference: it
// never changes.
func busIndex(name string, byName map[string]int) (int, bool) {
	if index, found := byName[name]; found {
		return index, true
	}
	digits, found := strings.CutPrefix(name, "pci.")
	if !found || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	index, ok := number(digits, 10)
	return int(index), ok && index <= 255
}

// isNoWord reports whether c separates names in an argument of QEMU. An alias
// holds letters, digits, _ and - (libvirt src/conf/domain_conf.c,
// virDomainDeviceAliasIsUserAlias), a name of libvirt's also a dot.
func isNoWord(c rune) bool {
	return !strings.ContainsRune("_-.", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// qemu are the elements named child, in elements of root named parent, both in
// QEMU's namespace.
func qemu(root *xmledit.Element, parent, child string) iter.Seq[*xmledit.Element] {
	return func(yield func(*xmledit.Element) bool) {
		for _, e := range root.Children {
			if !e.Is(qemuSpace, parent) {
				continue
			}
			for _, inner := range e.Children {
				if inner.Is(qemuSpace, child) && !yield(inner) {
					return
				}
			}
		}
	}
}
