package rules

import (
	"bytes"
	"regexp"

	"libvirt.org/go/libvirtxml"
)

var pciWithoutMode = regexp.MustCompile(`<hostdev([^>]*type=["'](?:pci|mdev)["'][^>]*)>`)

// Read reads a domain with libvirtxml, which refuses a hostdev without mode:
// that of KubeVirt's first call has none, so it gets one here.
func Read(xml []byte) (*libvirtxml.Domain, error) {
	xml = pciWithoutMode.ReplaceAllFunc(xml, func(tag []byte) []byte {
		if bytes.Contains(tag, []byte("mode=")) {
			return tag
		}
		return bytes.Replace(tag, []byte("<hostdev"), []byte(`<hostdev mode="subsystem"`), 1)
	})
	d := &libvirtxml.Domain{}
	return d, d.Unmarshal(string(xml))
}
