package domain

import (
	"hook-sidecar/pkg/domain/xmledit"
)

// override is a fragment that is a device of qemu:override: a Clique or a PortOverride. libvirt
// ignores one whose alias no device has (src/qemu/qemu_command.c,
// qemuBuildDeviceCommandlineHandleOverrides).
type override interface {
	Fragment
	// printOverride prints the device with the domain's prefix of QEMU's namespace.
	printOverride(prefix string) string
}

// placeOverrides adds the overrides of a kind to qemu:override.
func placeOverrides[O override](e *editor) error {
	prefix, _ := e.qemuPrefix(overrides)
	for _, o := range fragmentsOf[O](e.added) {
		e.qemu[overrides] = append(e.qemu[overrides], o.printOverride(prefix))
	}
	return nil
}

// replaceOverride removes the override at these elements, and adds one after all others.
func (e *editor) replaceOverride(o override, at []*xmledit.Element) {
	e.remove(at)
	e.added = append(e.added, o)
}

// overridden prints a device of qemu:override, the properties in their order.
func overridden(prefix, alias string, properties ...property) string {
	var printed []string
	for _, p := range properties {
		printed = append(printed,
			element(prefix+"property", []attribute{
				{"name", p.name}, {"type", p.kind}, {"value", p.value},
			}))
	}

	return element(prefix+"device", []attribute{
		{"alias", alias},
	}, element(prefix+"frontend", nil, printed...))
}

// property is a property in qemu:override.
type property struct{ name, kind, value string }
