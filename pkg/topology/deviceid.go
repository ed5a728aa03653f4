package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// UUID names a mediated device, in lower case with hyphens.
type UUID string

// ParseUUID reads 32 hex digits in the form 8-4-4-4-12, in either case.
func ParseUUID(s string) (UUID, error) {
	isValid := slices.EqualFunc(strings.Split(s, "-"), []int{8, 4, 4, 4, 12}, func(part string, digits int) bool {
		return len(part) == digits && strings.Trim(part, "0123456789abcdefABCDEF") == ""
	})
	if !isValid {
		return "", fmt.Errorf("invalid UUID %q: want 32 hex digits, such as 4a1f0b5c-6c3e-4f5a-9d0e-3b1c7f2a9e01", Abridge(s))
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
