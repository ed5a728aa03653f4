//go:build linux

package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
)

// Offsets in configuration space and the ID of a vendor's own capability (Linux
// include/uapi/linux/pci_regs.h).
const (
	capabilityList   = 0x34
	capabilityVendor = 0x09
)

// vendorCapability returns the vendor's own capability of a device in hex, "" when it has none.
// Its third byte is its length.
func vendorCapability(device string) string {
	config, err := os.ReadFile(filepath.Join(device, "config"))
	if err != nil || len(config) < 256 {
		return ""
	}

	for at, n := int(config[capabilityList])&^3, 0; at >= 0x40 &&
		n < 48; at, n = int(config[at+1])&^3, n+1 {
		if end := at + int(config[at+2]); config[at] == capabilityVendor && end <= 256 {
			return hex.EncodeToString(config[at:end])
		}
	}

	return ""
}
