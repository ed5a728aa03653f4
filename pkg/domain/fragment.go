package domain

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
)

// Fragment is a part outside the PCI tree that a hook may write for a policy key: an Option, a
// FirmwareEntry, an IOMMU, a Clique or a PortOverride. The domain may have its own.
type Fragment interface {
	// Mark returns the mark of a fragment that a hook wrote, "" for the user's own.
	Mark() Mark
	// replace writes the fragment in the place of one at these elements.
	replace(e *editor, at []*xmledit.Element)
}

// Mark marks the fragments of a policy key: the id of an Option, the name of a FirmwareEntry,
// the alias of an IOMMU, a property of a Clique or PortOverride. Without a mark a fragment is the
// user's.
type Mark string

// Marked lists the fragments that a domain has to have with a mark.
type Marked struct {
	Fragments []Fragment // all that bear the mark; none removes them
	Instead   []Fragment // unmarked ones that they replace
}

// Marked returns the fragments with a mark.
func (d *Domain) Marked(mark Mark) []Fragment {
	return slices.DeleteFunc(slices.Clone(d.Fragments), func(f Fragment) bool {
		return f.Mark() != mark
	})
}

// of returns the fragments of a kind.
func of[F Fragment](all []Fragment) []F {
	var found []F
	for _, f := range all {
		if one, ok := f.(F); ok {
			found = append(found, one)
		}
	}

	return found
}

// isReplaced reports whether marked fragments replace one of the domain.
func (m Marked) isReplaced(f Fragment, mark Mark) bool {
	return f.Mark() == mark || slices.Contains(m.Instead, f)
}

// Changes reports whether a domain differs from this in the fragments with the mark.
func (m Marked) Changes(d *Domain, mark Mark) bool {
	kept := slices.DeleteFunc(slices.Clone(d.Fragments), func(f Fragment) bool {
		return !m.isReplaced(f, mark)
	})
	return !slices.Equal(kept, m.Fragments)
}

// replaceFragments writes marked fragments in the places of those that they replace, and
// collects those that are gone and added.
func (e *editor) replaceFragments(changes map[Mark]Marked) {
	for _, mark := range slices.Sorted(maps.Keys(changes)) {
		if !changes[mark].Changes(e.domain, mark) {
			continue
		}

		wanted := changes[mark].Fragments
		for i, f := range e.domain.Fragments {
			at := e.domain.doc.fragments[i]
			switch {
			case !changes[mark].isReplaced(f, mark):
			case len(wanted) > 0:
				wanted[0].replace(e, at)
				wanted = wanted[1:]

			default:
				e.remove(at)
			}
		}

		e.added = append(e.added, wanted...)
	}
}

// editor collects the edits of one call of Apply.
type editor struct {
	domain *Domain
	xml    *xmledit.Document
	edits  []xmledit.Edit
	gone   map[*xmledit.Element]bool // of fragments
	added  []Fragment
}

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

// removeFrom removes gone elements from parents. It also removes a parent that is then empty,
// unless it is the one that gets more.
func (e *editor) removeFrom(parents []*xmledit.Element, keep *xmledit.Element) {
	for _, parent := range parents {
		e.edits = append(e.edits, e.xml.RemoveChildren(parent, func(child *xmledit.Element) bool {
			return e.gone[child]
		}, parent == keep)...)
	}
}
