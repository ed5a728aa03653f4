package topology

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Address is a PCI address on the host. VMD and Hyper-V use domains from 0x10000 upwards (kernel
// drivers/pci/controller/vmd.c, vmd_find_free_domain).
type Address struct {
	Domain   uint32
	Bus      uint8
	Device   uint8 // 0 to 0x1f
	Function uint8 // 0 to 7
}

// ParseAddress reads the kernel's form domain:bus:device.function with 4 to 8 hex digits of
// domain, in either case: "0000:17:00.0", "10000:01:00.0".
func ParseAddress(s string) (Address, error) {
	left, rest, _ := strings.Cut(s, ":")
	middle, right, _ := strings.Cut(rest, ":")
	slot, last, _ := strings.Cut(right, ".")
	domain, okDomain := hexDigits(left, 4, 8)
	bus, okBus := hexDigits(middle, 2, 2)
	device, okDevice := hexDigits(slot, 2, 2)
	function, okFunction := hexDigits(last, 1, 1)
	if !okDomain || !okBus || !okDevice || !okFunction || device > 0x1f || function > 7 {
		return Address{}, fmt.Errorf("invalid PCI address %q: want domain:bus:device.function, such as 0000:17:00.0", Abridge(s))
	}
	return Address{Domain: uint32(domain), Bus: uint8(bus), Device: uint8(device), Function: uint8(function)}, nil
}

// hexDigits reads a hex number of at least low and at most high digits.
func hexDigits(s string, low, high int) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 32)
	return n, err == nil && len(s) >= low && len(s) <= high
}

// String returns the kernel's form, in lower case: "0000:17:00.0".
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Device, a.Function)
}

// MarshalText writes the kernel's form.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Compare orders addresses by domain, bus, device, function.
func (a Address) Compare(b Address) int {
	return cmp.Or(
		cmp.Compare(a.Domain, b.Domain),
		cmp.Compare(a.Bus, b.Bus),
		cmp.Compare(a.Device, b.Device),
		cmp.Compare(a.Function, b.Function),
	)
}

// SameDevice reports whether a and b are functions of the same device.
func (a Address) SameDevice(b Address) bool {
	a.Function, b.Function = 0, 0
	return a == b
}
