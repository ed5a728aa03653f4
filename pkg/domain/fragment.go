package domain

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
)

// Fragment is a part outside the PCI tree that a hook may write for a policy key. The domain may
// have its own. Each kind is a type that can be compared, in a file of its own.
type Fragment interface {
	// Mark returns the mark of a fragment that a hook wrote, "" for the user's own.
	Mark() Mark
	// replace writes the fragment in the place of one at these elements.
	replace(e *editor, at []*xmledit.Element)
}

// written is a fragment with its elements in the document.
type written struct {
	Fragment
	at []*xmledit.Element
}

// kind has what Parse, Apply and Check do for a kind of Fragment.
type kind struct {
	// read finds the fragments of the kind, see reader.fragment.
	read func(r *reader, root *xmledit.Element)
	// place removes the fragments whose elements are in editor.gone, and adds editor.added.
	place func(e *editor) error
	// check finds a fragment that does not do what it was written for; it may be nil.
	check func(d *Domain) error
}

// kinds lists all kinds of Fragment. Apply inserts them in this order where they go to one place.
var kinds = []kind{iommuKind, firmwareKind, optionKind, cliqueKind, portKind}

// Check returns an error for a fragment of the hook that has no effect on what it was written
// for, though the bytes are as planned.
func (d *Domain) Check() error {
	for _, k := range kinds {
		if k.check == nil {
			continue
		}

		if err := k.check(d); err != nil {
			return err
		}
	}

	return nil
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

// fragmentsOf returns the fragments of a kind.
func fragmentsOf[F Fragment](all []Fragment) []F {
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
		for _, f := range e.domain.doc.written {
			switch {
			case !changes[mark].isReplaced(f.Fragment, mark):
			case len(wanted) > 0:
				wanted[0].replace(e, f.at)
				wanted = wanted[1:]

			default:
				e.remove(f.at)
			}
		}

		e.added = append(e.added, wanted...)
	}
}
