package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/words"
)

// UUID names a mediated device, in lower case with hyphens.
type UUID string

// ParseUUID reads 32 hex digits in the form 8-4-4-4-12, in either case.
func ParseUUID(s string) (UUID, error) {
	isValid := slices.EqualFunc(strings.Split(s, "-"), []int{
		8, 4, 4, 4, 12,
	}, func(part string, digits int) bool {
		return len(part) == digits && strings.Trim(part, "0123456789abcdefABCDEF") == ""
	})

	if !isValid {
		return "",
			fmt.Errorf("invalid UUID %q: want 32 hex digits, such as "+
				"4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01", words.Misread(s))
	}

	return UUID(strings.ToLower(s)), nil
}

// String returns the UUID.
func (u UUID) String() string { return string(u) }

// Kind is the kind of device that a DeviceID names.
type Kind string

// The kinds of device that are placed.
const (
	KindPCI  Kind = "pci"
	KindMDEV Kind = "mdev"
)

// DeviceID identifies a passthrough device: a PCI function by its host address or a mediated
// device by its UUID. It is comparable.
type DeviceID struct {
	pci  Address
	mdev UUID
}

// PCIDevice returns the ID of the PCI function at a.
func PCIDevice(a Address) DeviceID { return DeviceID{pci: a} }

// MediatedDevice returns the ID of the mediated device u.
func MediatedDevice(u UUID) DeviceID { return DeviceID{mdev: u} }

// Kind returns whether d is a PCI function or a mediated device.
func (d DeviceID) Kind() Kind {
	if d.mdev != "" {
		return KindMDEV
	}
	return KindPCI
}

// PCI returns the host address of a PCI function; false for a mediated device.
func (d DeviceID) PCI() (Address, bool) { return d.pci, d.mdev == "" }

// MDEV returns the UUID of a mediated device; false for a PCI function.
func (d DeviceID) MDEV() (UUID, bool) { return d.mdev, d.mdev != "" }

// String returns the PCI address or the UUID.
func (d DeviceID) String() string {
	if d.mdev != "" {
		return string(d.mdev)
	}
	return d.pci.String()
}

// MarshalText writes the PCI address or the UUID.
func (d DeviceID) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Compare orders PCI functions by address before mediated devices by UUID.
func (d DeviceID) Compare(other DeviceID) int {
	return cmp.Or(cmp.Compare(d.mdev, other.mdev), d.pci.Compare(other.pci))
}

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
		return Address{},
			fmt.Errorf("invalid PCI address %q: want domain:bus:device.function, such as "+
				"0000:17:00.0", words.Misread(s))
	}

	return Address{
		Domain: uint32(domain), Bus: uint8(bus), Device: uint8(device), Function: uint8(function),
	}, nil
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
func (a Address) Compare(b Address) int { return cmp.Compare(a.number(), b.number()) }

func (a Address) number() uint64 {
	return uint64(a.Domain)<<24 | uint64(a.Bus)<<16 | uint64(a.Device)<<8 | uint64(a.Function)
}

// SameDevice reports whether a and b are functions of the same device.
func (a Address) SameDevice(b Address) bool {
	a.Function, b.Function = 0, 0
	return a == b
}
