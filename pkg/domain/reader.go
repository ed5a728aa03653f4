package domain

import (
	"iter"
	"math"
	"math/bits"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/words"
)

// reader fills a Domain from a document.
type reader struct {
	xml    *xmledit.Document
	domain *Domain
}

// fragment adds a fragment that is at these elements.
func (r *reader) fragment(f Fragment, at ...*xmledit.Element) {
	r.domain.Fragments = append(r.domain.Fragments, f)
	r.domain.doc.written = append(r.domain.doc.written, written{f, at})
}

// marked returns the elements of the hook's own fragments.
func (r *reader) marked() map[*xmledit.Element]bool {
	own := map[*xmledit.Element]bool{}
	for _, f := range r.domain.doc.written {
		if f.Mark() == "" {
			continue
		}
		for _, element := range f.at {
			own[element] = true
		}
	}

	return own
}

// qemuSpace is the namespace of qemu:override and qemu:commandline (libvirt docs/drvqemu.rst).
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

// all yields the elements at a path of names under e in document order, as libvirt's XPath
// expressions do.
func all(e *xmledit.Element, path ...string) iter.Seq[*xmledit.Element] {
	return func(yield func(*xmledit.Element) bool) { walk(e, path, yield) }
}

func walk(e *xmledit.Element, path []string, yield func(*xmledit.Element) bool) bool {
	if len(path) == 0 {
		return yield(e)
	}

	space, local := namespace(path[0])
	for _, child := range e.Children {
		if child.Is(space, local) && !walk(child, path[1:], yield) {
			return false
		}
	}

	return true
}

// namespace splits a name of a path into namespace and local name. In paths qemu: and kubevirt:
// stand for the namespaces, whatever prefixes a domain binds to them.
func namespace(name string) (space, local string) {
	prefix, local, isQualified := strings.Cut(name, ":")
	switch {
	case !isQualified:
		return "", name
	case prefix == "qemu":
		return qemuSpace, local
	}

	return "http://kubevirt.io", local
}

// first returns the first element at a path under e, or nil.
func first(e *xmledit.Element, path ...string) *xmledit.Element {
	for found := range all(e, path...) {
		return found
	}
	return nil
}

func alias(e *xmledit.Element) string { return e.Child("alias").Value("name") }

// required reads a decimal number from an attribute that libvirt requires.
func (r *reader) required(e *xmledit.Element, name string) (int, error) {
	n, ok, err := r.attrNumber(e, name, 10, 0, math.MaxInt32)
	if err == nil && !ok {
		err = r.xml.Errorf(e.Open().Start, "<%s> has no attribute %s", e.Name, name)
	}
	return int(n), err
}

// attrNumber reads the number in an attribute, between low and high; ok is false where e does
// not have it.
func (r *reader) attrNumber(
	e *xmledit.Element, name string, base int, low, high uint64,
) (n uint64, ok bool, err error) {
	a := e.Attr(name)
	if a == nil {
		return 0, false, nil
	}

	n, ok = number(a.Value, base)
	if !ok || n < low || n > high {
		return 0, false, r.xml.Errorf(a.Text().Start,
			"attribute %s of <%s>: invalid number %q: must be between %d and %d",
			name, e.Name, words.Misread(a.Value), low, high)
	}

	return n, true, nil
}

// scaled reads the text of e with its attribute unit, KiB without one, as a size in bytes
// (libvirt src/conf/domain_conf.c, virDomainParseMemory).
func (r *reader) scaled(e *xmledit.Element) (uint64, error) {
	n, err := r.textNumber(e, math.MaxUint64)
	if err != nil {
		return 0, err
	}

	scale, ok := unit(e.Value("unit"))
	if !ok {
		return 0, r.xml.Errorf(e.Attr("unit").Text().Start,
			"attribute unit of <%s>: invalid unit %q: want one such as KiB or GB",
			e.Name, words.Abridge(e.Value("unit")))
	}

	high, low := bits.Mul64(n, scale)
	if high != 0 {
		return 0, r.xml.Errorf(e.Open().Start, "<%s> is larger than 64 bits", e.Name)
	}

	return low, nil
}

// textNumber reads the decimal number that is the text of e.
func (r *reader) textNumber(e *xmledit.Element, high uint64) (uint64, error) {
	text := strings.TrimSpace(r.xml.Text(e))
	n, ok := number(text, 10)
	if !ok || n > high {
		return 0, r.xml.Errorf(e.Open().End,
			"text of <%s>: invalid number %q: must be between 0 and %d",
			e.Name, words.Misread(text), high)
	}

	return n, nil
}
