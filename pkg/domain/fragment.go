package domain

import (
	"maps"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
)

// kind has what Parse, Apply and Check do for a kind of Fragment.
type kind struct {
	// read finds the fragments of the kind, see reader.fragment.
	read func(r *reader, root *xmledit.Element)
	// place removes the fragments whose elements are in editor.gone, and adds editor.added.
	place func(e *editor) error
	// check finds a fragment that does not do what it was written for; it may be nil.
	check func(d *Domain) error
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
