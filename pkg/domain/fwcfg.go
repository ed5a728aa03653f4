package domain

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// FirmwareEntry is an entry of QEMU's fw_cfg device (Linux: /sys/firmware/qemu_fw_cfg/by_name).
type FirmwareEntry struct {
	Name  string // "opt/…", at most 55 bytes (QEMU docs/specs/fw_cfg.rst)
	Value string // the content
	File  string // the file that has the content instead, "" without one
}

var firmwareKind = kind{read: readFirmwareEntries, place: placeFirmwareEntries}

// readFirmwareEntries reads the entries of fw_cfg (libvirt docs/formatdomain.rst, "System
// information"). A domain may have several sysinfo elements.
func readFirmwareEntries(r *reader, root *xmledit.Element) {
	for info := range all(root, "sysinfo") {
		if info.Value("type") != fwcfg {
			continue
		}
		for e := range all(info, "entry") {
			r.fragment(FirmwareEntry{
				Name: e.Value("name"), Value: r.xml.Text(e), File: e.Value("file"),
			}, e)
		}
	}
}

const fwcfg = "fwcfg"

// EntryPrefix begins the names of entries that Apply may add, replace and remove.
const EntryPrefix = "opt/org.kubevirt.hostdev/"

// Mark returns the name if it begins with EntryPrefix.
func (f FirmwareEntry) Mark() Mark {
	if strings.HasPrefix(f.Name, EntryPrefix) {
		return Mark(f.Name)
	}
	return ""
}

func (f FirmwareEntry) print() string {
	return fmt.Sprintf(`<entry name="%s">%s</entry>`, xmledit.Escape(f.Name),
		xmledit.Escape(f.Value))
}

func (f FirmwareEntry) replace(e *editor, at []*xmledit.Element) {
	e.edit(e.xml.Replace(at[0], f.print()))
}

// placeFirmwareEntries removes and adds entries, and removes an emptied sysinfo: libvirt's schema
// requires an entry in it.
func placeFirmwareEntries(e *editor) error {
	e.removeFrom(slices.Collect(all(e.xml.Root(), "sysinfo")), nil)
	for _, f := range fragmentsOf[FirmwareEntry](e.added) {
		e.edit(e.addFirmwareEntry(f.print()))
	}

	return nil
}

// addFirmwareEntry adds the entry to the sysinfo of its type, or adds one before all others:
// KubeVirt's types have a single sysinfo, and of several the type of the last counts
// (encoding/xml fills one struct), which would make the domain's own smbios a fwcfg.
func (e *editor) addFirmwareEntry(entry string) xmledit.Edit {
	root := e.xml.Root()
	sysinfo := element("sysinfo", []attribute{{"type", fwcfg}}, entry)
	for info := range all(root, "sysinfo") {
		switch {
		case info.Value("type") != fwcfg:
		case info.Child("entry") != nil || len(info.Children) == 0:
			return e.xml.Fill(info, entry)
		default:
			// KubeVirt turns a lone sysinfo of this type into SMBIOS tables without entries,
			// which libvirt's schema refuses here.
			return e.xml.Replace(info, sysinfo)
		}
	}

	return e.insertBefore(sysinfo, "sysinfo", "os", "devices")
}
