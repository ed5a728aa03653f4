package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// Details is what diagnosis reads of a PCI function and placement does not.
// Each field names its file below /sys/bus/pci/devices/<address>/.
type Details struct {
	SubsystemVendor uint16 // subsystem_vendor
	SubsystemDevice uint16 // subsystem_device

	Link    *Link // current_link_speed and current_link_width; nil where there is no link to tell of
	MaxLink *Link // max_link_speed and max_link_width

	// ResetMethods are the ways that the kernel has to reset the function, the
	// first it tries first: "flr", "bus". ResetKnown is false when there is no
	// reset_method: the kernel is older than 5.15 or has no way at all
	// (drivers/pci/pci.c, pci_dev_reset_method_attr_is_visible).
	ResetMethods []string
	ResetKnown   bool

	// ExtendedConfig is false when config holds no extended configuration
	// space: without CAP_SYS_ADMIN the kernel shows 64 bytes (drivers/pci/pci-sysfs.c,
	// pci_read_config), and a snapshot has none. ACS and ATS are then not known.
	ExtendedConfig bool
	ACS            *ACS // nil: no such capability
	ATS            *ATS // nil: no such capability
}

// Link is a PCI Express link's speed in GT/s and its width in lanes.
type Link struct {
	Speed float64
	Width int
}

// ParseLinkSpeed reads the kernel's form, "16.0 GT/s PCIe" (drivers/pci/pci.h,
// PCIE_SPEED2STR). "Unknown" is an error.
func ParseLinkSpeed(s string) (float64, error) {
	number, unit, _ := strings.Cut(s, " ")
	speed, err := strconv.ParseFloat(number, 64)
	isSpeed := speed > 0 && speed <= maxLinkSpeed // NaN is neither
	if err != nil || !isSpeed || !strings.HasPrefix(unit, "GT/s") {
		return 0, fmt.Errorf("%q is no link speed like 16.0 GT/s PCIe", Abridge(s))
	}
	return speed, nil
}

// maxLinkSpeed is far above any link there is: PCI Express 7.0 has 128 GT/s.
const maxLinkSpeed = 4096

// String is the link in the words of lspci: "16 GT/s x16".
func (l Link) String() string {
	return strconv.FormatFloat(l.Speed, 'f', -1, 64) + " GT/s x" + strconv.Itoa(l.Width)
}

// ACS is the Access Control Services capability of a port (PCI Express 5.0,
// 7.7.8).
type ACS struct {
	RequestRedirect    bool // control bit 2: requests between devices below go up to the IOMMU
	CompletionRedirect bool // control bit 3
	DirectTranslated   bool // control bit 6: translated requests go straight across
}

// ATS is the Address Translation Services capability of an endpoint (PCI
// Express 5.0, 10.5.1).
type ATS struct {
	Enabled bool // control bit 15
}
