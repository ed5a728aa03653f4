package domain

import (
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// firmware reads the entries of fw_cfg (libvirt docs/formatdomain.rst, "System
// information"): a domain may have several sysinfo elements.
func (r *reader) firmware(root *xmledit.Element) error {
	for info := range all(root, "sysinfo") {
		if info.Value("type") != fwcfg {
			continue
		}
		for e := range all(info, "entry") {
			r.domain.FirmwareEntries = append(r.domain.FirmwareEntries, FirmwareEntry{Name: e.Value("name"), Value: r.xml.Text(e)})
			r.domain.doc.firmware = append(r.domain.doc.firmware, e)
		}
	}
	return nil
}

const fwcfg = "fwcfg"

// maxFirmwareName is the longest name of an entry in bytes: fw_cfg keeps 56
// with the zero at the end (QEMU include/standard-headers/linux/qemu_fw_cfg.h).
const maxFirmwareName = 55

func (e *editor) setFirmwareEntry(c Changes) error {
	set := c.SetFirmwareEntry
	if set == nil {
		return nil
	}
	written, err := renderFirmwareEntry(*set)
	if err != nil {
		return fmt.Errorf("set fw_cfg entry %q: %w", topology.Abridge(set.Name), err)
	}
	for i, now := range e.domain.FirmwareEntries {
		if now.Name == set.Name {
			if now.Value != set.Value || e.domain.doc.firmware[i].Attr("file") != nil {
				e.edit(e.xml.Replace(e.domain.doc.firmware[i], written))
			}
			return nil
		}
	}
	return e.addFirmwareEntry(written)
}

// addFirmwareEntry puts the entry into the sysinfo of its kind, or makes one
// before all others: KubeVirt's types know a single sysinfo, and when they read
// several, the type of the last counts (encoding/xml fills one struct). Behind
// the domain's own smbios it would make that a fwcfg.
func (e *editor) addFirmwareEntry(entry string) error {
	root := e.xml.Root()
	sysinfo := "<sysinfo type=\"fwcfg\">\n\t" + entry + "\n</sysinfo>"
	for info := range all(root, "sysinfo") {
		if info.Value("type") != fwcfg {
			continue
		}
		// What KubeVirt makes of a lone sysinfo of this kind has SMBIOS tables
		// without entries, which libvirt's schema refuses here.
		if info.Child("entry") == nil {
			e.edit(e.xml.Replace(info, sysinfo))
		} else {
			e.edit(e.xml.InsertLast(info, entry))
		}
		return nil
	}
	for _, name := range []string{"sysinfo", "os", "devices"} {
		if before := root.Child(name); before != nil {
			e.edit(e.xml.InsertBefore(before, sysinfo))
			return nil
		}
	}
	e.edit(e.xml.InsertLast(root, sysinfo))
	return nil
}

func renderFirmwareEntry(entry FirmwareEntry) (string, error) {
	if !strings.HasPrefix(entry.Name, "opt/") || len(entry.Name) > maxFirmwareName {
		return "", fmt.Errorf("the name does not begin with opt/ or is longer than %d bytes", maxFirmwareName)
	}
	return write("entry", libvirtxml.DomainSysInfoEntry{Name: entry.Name, Value: entry.Value})
}
