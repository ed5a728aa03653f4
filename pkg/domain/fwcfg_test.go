package domain_test

import (
	"testing"

	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/test/expect"
)

const entryName = domain.EntryPrefix + "entry"

// firmwareCases returns domains before and after an entry is set.
func firmwareCases() map[string]struct{ before, after string } {
	return map[string]struct{ before, after string }{
		// KubeVirt's types have one sysinfo, and the last one's type counts.
		"before the domain's own smbios": {
			"<domain>\n  <name>a</name>\n  <sysinfo type='smbios'>\n    <system/>\n" +
				"  </sysinfo>\n  <devices/>\n</domain>",
			"<domain>\n  <name>a</name>\n  <sysinfo type=\"fwcfg\">\n" +
				"    <entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry>\n  </sysinfo>\n  <sysinfo type='smbios'>\n" +
				"    <system/>\n  </sysinfo>\n  <devices/>\n</domain>",
		},
		"before the devices, without any": {
			"<domain>\n\t<devices></devices>\n</domain>",
			"<domain>\n\t<sysinfo type=\"fwcfg\">\n" +
				"\t\t<entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry>\n\t</sysinfo>\n\t<devices></devices>\n</domain>",
		},
		"beside another entry": {
			"<domain><sysinfo type='fwcfg'><entry name='opt/x'>y</entry></sysinfo><devices/>" +
				"</domain>",
			"<domain><sysinfo type='fwcfg'><entry name='opt/x'>y</entry>" +
				"<entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry></sysinfo><devices/></domain>",
		},
		"in the place of an older text": {
			"<domain><sysinfo type='fwcfg'>" +
				"<entry name='opt/org.kubevirt.hostdev/entry'>old</entry>" +
				"<entry name='opt/x'>y</entry></sysinfo><devices/></domain>",
			"<domain><sysinfo type='fwcfg'>" +
				"<entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry><entry name='opt/x'>y</entry></sysinfo><devices/>" +
				"</domain>",
		},
		"in the place of a file of that name": {
			"<domain><sysinfo type='fwcfg'>" +
				"<entry name='opt/org.kubevirt.hostdev/entry' file='/f'/></sysinfo><devices/>" +
				"</domain>",
			"<domain><sysinfo type='fwcfg'>" +
				"<entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry></sysinfo><devices/></domain>",
		},
		// What KubeVirt's types leave of a lone sysinfo with an entry.
		"in the place of what KubeVirt leaves": {
			"<domain>\n\t<sysinfo type=\"fwcfg\">\n\t\t<system></system>\n\t\t<bios></bios>\n" +
				"\t</sysinfo>\n\t<devices></devices>\n</domain>",
			"<domain>\n\t<sysinfo type=\"fwcfg\">\n" +
				"\t\t<entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry>\n\t</sysinfo>\n\t<devices></devices>\n</domain>",
		},
		"in the user's empty one": {
			"<domain>\n  <sysinfo type='fwcfg'/>\n  <devices/>\n</domain>",
			"<domain>\n  <sysinfo type='fwcfg'>\n" +
				"    <!-- hook-sidecar: was <sysinfo type='fwcfg'/> -->\n" +
				"    <entry name=\"opt/org.kubevirt.hostdev/entry\">a &lt;b " +
				"c=&#34;d,e&#34;/&gt;</entry>\n  </sysinfo>\n  <devices/>\n</domain>",
		},
		"already there, written differently": {
			"<domain><sysinfo type='fwcfg'><entry name='opt/org.kubevirt.hostdev/entry'>" +
				"<![CDATA[a <b c=\"d,e\"/>]]></entry></sysinfo><devices/></domain>",
			"<domain><sysinfo type='fwcfg'><entry name='opt/org.kubevirt.hostdev/entry'>" +
				"<![CDATA[a <b c=\"d,e\"/>]]></entry></sysinfo><devices/></domain>",
		},
	}
}

func TestSetFirmwareEntry(t *testing.T) {
	entry := domain.FirmwareEntry{Name: entryName, Value: `a <b c="d,e"/>`}
	for name, tc := range firmwareCases() {
		t.Run(name, func(t *testing.T) {
			d, err := domain.Parse([]byte(tc.before))
			expect.NoError(t, err)
			got, err := d.Apply(with(domain.Mark(entryName), entry))
			expect.NoError(t, err)
			if string(got) != tc.after {
				t.Errorf("got\n%s\nwant\n%s", got, tc.after)
			}

			// libvirtxml reads the same value.
			var seen libvirtxml.Domain
			expect.NoError(t, seen.Unmarshal(string(got)))
			value := ""
			for _, info := range seen.SysInfo {
				if info.FWCfg != nil {
					for _, e := range info.FWCfg.Entry {
						if e.Name == entryName {
							value += e.Value
						}
					}
				}
			}

			if value != entry.Value {
				t.Errorf("libvirtxml reads %q", value)
			}
		})
	}
}

// TestRemoveFirmwareEntries: all other bytes stay, and no sysinfo is left that libvirt's
// schema refuses for want of an entry.
func TestRemoveFirmwareEntries(t *testing.T) {
	const own = "<entry name='" + entryName + "'>y</entry>"
	for name, tc := range map[string]struct{ before, after string }{
		"with its sysinfo": {
			before: "<domain>\n  <name>a</name>\n  <sysinfo type='fwcfg'>\n    " + own +
				"\n  </sysinfo>\n  <sysinfo type='smbios'/>\n  <devices/>\n</domain>",
			after: "<domain>\n  <name>a</name>\n  <sysinfo type='smbios'/>\n  <devices/>\n</domain>",
		},
		"beside another entry": {
			before: "<domain><sysinfo type='fwcfg'>" + own +
				"<!-- a --><entry name='opt/z'>y</entry></sysinfo><devices/></domain>",
			after: "<domain><sysinfo type='fwcfg'><!-- a --><entry name='opt/z'>y</entry>" +
				"</sysinfo><devices/></domain>",
		},
		"from the user's empty one": {
			before: "<domain>\n  <sysinfo type='fwcfg'>\n" +
				"    <!-- hook-sidecar: was <sysinfo type='fwcfg'/> -->\n    " + own +
				"\n  </sysinfo>\n  <devices/>\n</domain>",
			after: "<domain>\n  <sysinfo type='fwcfg'/>\n  <devices/>\n</domain>",
		},
		"all of two elements": {
			before: "<domain><sysinfo type='fwcfg'>" + own + own +
				"</sysinfo><sysinfo type='fwcfg'>" + own + "</sysinfo><devices/></domain>",
			after: "<domain><devices/></domain>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := apply(t, parse(t, tc.before), with(domain.Mark(entryName))); got != tc.after {
				t.Errorf("got\n%s\nwant\n%s", got, tc.after)
			}
		})
	}
}
