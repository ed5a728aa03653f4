package domain

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// number reads an unsigned number as libvirt does, with C's strtoul (libvirt
// src/util/virstring.c, virStrToLong_ui): blanks and a plus sign in front, and
// with base 0 the prefix 0x for hex and 0 for octal. False when it is none.
func number(s string, base int) (uint64, bool) {
	s = strings.TrimPrefix(strings.TrimLeft(s, " \t\n\v\f\r"), "+")
	if base == 0 {
		switch {
		case len(s) > 1 && (s[:2] == "0x" || s[:2] == "0X"):
			s, base = s[2:], 16
		case len(s) > 1 && s[0] == '0':
			s, base = s[1:], 8
		default:
			base = 10
		}
	}
	// With a base of its own, ParseUint takes digits only: no sign, no
	// underscore.
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}

// attrNumber reads the number in the attribute with the name; ok is false when
// e has none. It is an error when it is no number from low to high.
func (r *reader) attrNumber(e *xmledit.Element, name string, base int, low, high uint64) (n uint64, ok bool, err error) {
	a := e.Attr(name)
	if a == nil {
		return 0, false, nil
	}
	n, ok = number(a.Value, base)
	if !ok || n < low || n > high {
		return 0, false, r.xml.Errorf(a.Text.Start, "attribute %s of <%s>: %q is no number from %d to %d",
			name, e.Name, topology.Abridge(a.Value), low, high)
	}
	return n, true, nil
}

// textNumber reads the decimal number that is the text of e.
func (r *reader) textNumber(e *xmledit.Element, high uint64) (uint64, error) {
	text := strings.TrimSpace(r.xml.Text(e))
	n, ok := number(text, 10)
	if !ok || n > high {
		return 0, r.xml.Errorf(e.Open.End, "text of <%s>: %q is no number from 0 to %d",
			e.Name, topology.Abridge(text), high)
	}
	return n, nil
}

// scaled reads the size in bytes that is the text of e with its attribute
// unit, in KiB without one (libvirt src/conf/domain_conf.c,
// virDomainParseMemory).
func (r *reader) scaled(e *xmledit.Element) (uint64, error) {
	n, err := r.textNumber(e, math.MaxUint64)
	if err != nil {
		return 0, err
	}
	scale, ok := unit(e.Value("unit"))
	if !ok {
		return 0, r.xml.Errorf(e.Attr("unit").Text.Start, "attribute unit of <%s>: %q is no unit of size",
			e.Name, topology.Abridge(e.Value("unit")))
	}
	high, low := bits.Mul64(n, scale)
	if high != 0 {
		return 0, r.xml.Errorf(e.Open.Start, "<%s> is larger than 64 bits can count", e.Name)
	}
	return low, nil
}

// unit is the bytes of a unit (libvirt src/util/virutil.c, virScaleInteger): a
// letter alone or with iB counts in powers of 1024, with B in powers of 1000.
func unit(s string) (uint64, bool) {
	const letters = "kmgtpe"
	s = strings.ToLower(s)
	switch s {
	case "":
		return 1 << 10, true
	case "b", "byte", "bytes":
		return 1, true
	}
	power := strings.IndexByte(letters, s[0]) + 1
	base := uint64(1024)
	switch s[1:] {
	case "", "ib":
	case "b":
		base = 1000
	default:
		return 0, false
	}
	if power == 0 {
		return 0, false
	}
	scale := uint64(1)
	for range power {
		scale *= base
	}
	return scale, true
}
