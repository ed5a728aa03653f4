package domain

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

func (e *editor) edit(edit xmledit.Edit) { e.edits = append(e.edits, edit) }

// insertBefore inserts an element before the root's first of these names that it has, else last.
func (e *editor) insertBefore(printed string, names ...string) xmledit.Edit {
	for _, name := range names {
		if before := e.xml.Root().Child(name); before != nil {
			return e.xml.InsertBefore(before, printed)
		}
	}
	return e.xml.InsertLast(e.xml.Root(), printed)
}

func (e *editor) remove(fragment []*xmledit.Element) {
	for _, element := range fragment {
		e.gone[element] = true
	}
}

// The root's elements in QEMU's namespace (libvirt docs/drvqemu.rst).
const (
	commandLine = "commandline"
	overrides   = "override"
)

var qemuParents = []string{commandLine, overrides}

// setQEMU removes gone elements from the root's elements with a name in QEMU's namespace, and puts
// those of editor.qemu into one of them, or into a new one: libvirt's schema allows one.
func (e *editor) setQEMU(name string) {
	parents, elements := slices.Collect(all(e.xml.Root(), "qemu:"+name)), e.qemu[name]
	if len(elements) == 0 {
		e.removeFrom(parents, nil)
		return
	}

	into := e.qemuParent(name)
	e.removeFrom(parents, into)
	if into == nil {
		prefix, declaration := e.qemuPrefix(name)
		e.edit(e.xml.InsertLast(e.xml.Root(), element(prefix+name, declaration, elements...)))
		return
	}

	e.edit(e.xml.Fill(into, elements...))
}

// removeFrom removes gone elements from parents. It also removes a parent that is then empty,
// unless it is the one that gets more.
func (e *editor) removeFrom(parents []*xmledit.Element, keep *xmledit.Element) {
	for _, parent := range parents {
		e.edits = append(e.edits, e.xml.RemoveChildren(parent, func(child *xmledit.Element) bool {
			return e.gone[child]
		}, parent == keep)...)
	}
}

// qemuPrefix returns the prefix of QEMU's namespace in an element with a name, or under the root
// where there is none, with a declaration where the root has none: KubeVirt loses it between calls
// (virtwrap/api/schema.go, DomainSpec.XmlNS).
func (e *editor) qemuPrefix(name string) (string, []attribute) {
	if in := e.qemuParent(name); in != nil {
		return strings.TrimSuffix(in.Name, in.Local), nil
	}

	for _, a := range e.xml.Root().Attrs {
		if bound, isPrefix := strings.CutPrefix(a.Name, "xmlns:"); isPrefix &&
			a.Value == qemuSpace {
			return bound + ":", nil
		}
	}

	return "qemu:", []attribute{{"xmlns:qemu", qemuSpace}}
}

// qemuParent returns the last element with a name in QEMU's namespace that has any children, else
// the first; nil without one.
func (e *editor) qemuParent(name string) (into *xmledit.Element) {
	for parent := range all(e.xml.Root(), "qemu:"+name) {
		if into == nil || len(parent.Children) > 0 {
			into = parent
		}
	}
	return into
}
