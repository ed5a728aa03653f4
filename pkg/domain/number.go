package domain

import (
	"strconv"
	"strings"
)

// number reads an unsigned number as C's strtoul (libvirt src/util/virstring.c, virStrToLong_ui):
// whitespace and a plus sign may come first, and with base 0 the prefix 0x means hex and 0 octal.
func number(s string, base int) (n uint64, ok bool) {
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

	n, err := strconv.ParseUint(s, base, 64) // with a base it takes no sign and no underscore
	return n, err == nil
}

// unit returns the bytes of a unit (libvirt src/util/virutil.c, virScaleInteger): a letter alone
// or with iB is a power of 1024, with B a power of 1000.
func unit(s string) (scale uint64, ok bool) {
	s = strings.ToLower(s)
	switch s {
	case "":
		return 1 << 10, true
	case "b", "byte", "bytes":
		return 1, true
	}

	var base uint64
	switch s[1:] {
	case "", "ib":
		base = 1024
	case "b":
		base = 1000
	}

	power := strings.IndexByte("kmgtpe", s[0])
	if base == 0 || power < 0 {
		return 0, false
	}

	scale = base
	for range power {
		scale *= base
	}

	return scale, true
}
