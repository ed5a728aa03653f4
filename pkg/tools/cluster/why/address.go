package why

import (
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// device returns the PCI device that a line names, without its function; "" if it names none. Each
// line of a log is asked, so no expression does it.
func device(line string) string {
	for colon, c := range []byte(line) {
		if c == ':' && isAddressAt(line, colon) {
			return strings.ToLower(line[colon-len("0000") : colon+len(":00:00")])
		}
	}
	return ""
}

// isAddressAt reports whether a colon of a line ends the domain of an address such as 0000:c1:00.0.
// The domain may have eight digits, as the kernel or nvidia-smi prints it, and the function may be
// missing, as NVIDIA's driver prints it.
func isAddressAt(line string, colon int) bool {
	start, end := colon-len("0000"), colon+len(":00:00")
	if start < 0 || end > len(line) || line[colon+3] != ':' || !isHex(line[start:colon]) ||
		!isHex(line[colon+1:colon+3]) || !isHex(line[colon+4:end]) {
		return false
	}

	before := line[:start]
	if upper := len(before) - len("0000"); upper >= 0 && isHex(before[upper:]) {
		before = before[:upper]
	}

	isWhole := before == "" || !isWordByte(before[len(before)-1])
	return isWhole && (end == len(line) || !isWordByte(line[end]))
}

// isHex reports whether a text has hexadecimal digits alone.
func isHex(text string) bool {
	for _, c := range []byte(text) {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

// isWordByte reports whether a byte is of a word.
func isWordByte(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_'
}

// anyAddress is a PCI address in a line of a kernel, also without its domain or its function, and
// pathAddress one with both, as paths of sysfs have it.
var (
	anyAddress = lazyregexp.New(`\b(?:(?:[0-9a-f]{4})?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?` +
		`|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`)
	pathAddress = lazyregexp.New(`\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b`)
)

// slotOf returns an address without its function, with a domain of four digits; a UUID as it is.
func slotOf(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	switch parts := strings.Split(address, ":"); {
	case len(parts) == 2:
		return "0000:" + address
	case len(parts) == 3 && len(parts[0]) == 8:
		return address[4:]
	}
	return address
}

// busOf returns the bus of an address without a function; "" if it has none.
func busOf(slot string) string {
	if parts := strings.Split(slot, ":"); len(parts) == 3 {
		return parts[1]
	}
	return ""
}
