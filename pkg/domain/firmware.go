package domain

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// firmware reads the entries of fw_cfg (libvirt docs/formatdomain.rst, "System
// information"): a domain may have several sysinfo elements.
func (r *reader) firmware(root *xmledit.Element) error {
	d := r.domain
	for info := range all(root, "sysinfo") {
		if info.Value("type") != fwcfg {
			continue
		}
		for e := range all(info, "entry") {
			d.FirmwareEntries = append(d.FirmwareEntries, FirmwareEntry{Name: e.Value("name"), Value: r.xml.Text(e)})
			d.doc.firmware = append(d.doc.firmware, e)
		}
	}
	return nil
}

const fwcfg = "fwcfg"

// maxFirmwareName is the longest name of an entry in bytes: fw_cfg keeps 56
// with the zero at the end (QEMU include/standard-headers/linux/qemu_fw_cfg.h).
const maxFirmwareName = 55

func (e *editor) setFirmwareEntry(set *FirmwareEntry) error {
	if set == nil {
		return nil
	}
	if !strings.HasPrefix(set.Name, "opt/") || len(set.Name) > maxFirmwareName {
		return fmt.Errorf("set fw_cfg entry %q: the name must begin with opt/ and have at most %d bytes",
			topology.Abridge(set.Name), maxFirmwareName)
	}
	entry := fmt.Sprintf(`<entry name="%s">%s</entry>`, xmledit.Escape(set.Name), xmledit.Escape(set.Value))
	for i, now := range e.domain.FirmwareEntries {
		if now.Name == set.Name {
			if now.Value != set.Value || e.domain.doc.firmware[i].Attr("file") != nil {
				e.edit(e.xml.Replace(e.domain.doc.firmware[i], entry))
			}
			return nil
		}
	}
	e.edit(e.addFirmwareEntry(entry))
	return nil
}

// removeFirmwareEntries removes entries, and a sysinfo that has nothing else and gets
// nothing new: libvirt's schema wants an entry in it.
func (e *editor) removeFirmwareEntries(c Changes) {
	removed := map[*xmledit.Element]bool{}
	for _, i := range c.RemoveFirmwareEntries {
		removed[e.domain.doc.firmware[i]] = true
	}
	for info := range all(e.xml.Root(), "sysinfo") {
		kept := slices.DeleteFunc(slices.Clone(info.Children), func(child *xmledit.Element) bool { return removed[child] })
		if len(kept) == 0 && len(info.Children) > 0 && c.SetFirmwareEntry == nil {
			e.edit(e.xml.Remove(info))
			continue
		}
		for _, child := range info.Children {
			if removed[child] {
				e.edit(e.xml.Remove(child))
			}
		}
	}
}

// addFirmwareEntry adds the entry to the sysinfo of its type, or adds one before
// all others: KubeVirt's types know a single sysinfo, and when they read
// several, the type of the last counts (encoding/xml fills one struct). After
// the domain's own smbios it would make that a fwcfg.
func (e *editor) addFirmwareEntry(entry string) xmledit.Edit {
	root := e.xml.Root()
	sysinfo := `<sysinfo type="` + fwcfg + "\">\n\t" + entry + "\n</sysinfo>"
	for info := range all(root, "sysinfo") {
		switch {
		case info.Value("type") != fwcfg:
		case info.Child("entry") != nil:
			return e.xml.InsertLast(info, entry)
		default:
			// What KubeVirt makes of a lone sysinfo of this type has SMBIOS tables
			// without entries, which libvirt's schema refuses here.
			return e.xml.Replace(info, sysinfo)
		}
	}
	for _, name := range []string{"sysinfo", "os", "devices"} {
		if before := root.Child(name); before != nil {
			return e.xml.InsertBefore(before, sysinfo)
		}
	}
	return e.xml.InsertLast(root, sysinfo)
}
