package oracle

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"

	"hook-sidecar/test/tree"
)

// rule changes one thing that a libvirt refuses though KubeVirt emits it or
// newer versions know it: without KVM, and without Red Hat's machine types.
// TestEveryRuleIsNeeded shows that a domain is refused without the rule.
type rule struct {
	name  string // also the note that prepare returns
	from  int    // the first version of libvirt that needs the rule, as version counts
	until int    // the first one that does not, 0 where all need it
	apply func(*splices, *tree.Node)
}

// version counts a version of libvirt as libvirt does (virGetVersion).
func version(major, minor int) int { return major*1_000_000 + minor*1_000 }

// rules returns the whole list of what is changed.
func rules() []rule {
	return []rule{
		{name: "domain type kvm is defined as qemu: there is no KVM", apply: kvmAsQEMU},
		{name: "machine type newer than QEMU 7.2 or a vendor's is defined as its family's default",
			apply: knownMachine},
		{name: "emulator that is not on this machine is left to libvirt", apply: knownEmulator},
		{name: "empty sysinfo sections are left out: the schema requires an entry",
			apply: fullSysinfo},
		{name: "maxMemory without slots is left out: libvirt 9 requires both",
			until: version(11, 3), apply: slottedMaxMemory},
		{name: "disk elements filesystemOverhead and capacity are left out: KubeVirt's own",
			apply: plainDisk},
		{name: "disk source name is left out: the schema has it for network disks only",
			apply: plainDiskSource},
		{name: "type of a hostdev's source address is left out: the schema has none",
			apply: plainSourceAddress},
		{name: "iommufd is left out: libvirt 12.2", until: version(12, 2), apply: withoutIOMMUFD},
		{
			name: "driver of a hostdev is put before its source: the schema allows no address " +
				"between them", from: version(12, 2), apply: driverFirst,
		},
		{name: "acpi nodeset of a hostdev is left out: libvirt 11.8", until: version(11, 8),
			apply: withoutNodeset},
		{name: "iommu with a driver pciBus is left out: libvirt 11.10", until: version(11, 10),
			apply: withoutPCIBus},
		{name: "pcihole64 of machine virt is left out: libvirt 12.8", until: version(12, 8),
			apply: withoutVirtHole},
		{name: "ssidSize of an iommu is named as in the schema, ssidsize", from: version(11, 10),
			apply: lowerSSIDSize},
	}
}

// rulesOf returns the rules for a version of libvirt.
func rulesOf(version int) []rule {
	return slices.DeleteFunc(rules(), func(r rule) bool {
		return version < r.from || r.until != 0 && version >= r.until
	})
}

// prepare returns the domain without what needs the rules, and a note for each kind
// of change. Everything else stays byte for byte; so does input that is not XML, for
// libvirt to refuse.
func prepare(domain []byte, list []rule) (stripped []byte, notes []string) {
	root, err := tree.Parse(domain)
	if err != nil {
		return domain, nil
	}

	all := splices{source: domain}
	for _, r := range list {
		before := len(all.edits)
		r.apply(&all, root)
		if len(all.edits) > before {
			notes = append(notes, r.name)
		}
	}

	return all.bytes(), notes
}

// splices are changes to a document, by byte offset.
type splices struct {
	source []byte
	edits  []splice
}

type splice struct {
	start, end int
	text       string
}

// drop removes an element.
func (s *splices) drop(n *tree.Node) {
	if n != nil {
		s.edits = append(s.edits, splice{n.Start, n.End, ""})
	}
}

// attribute finds `name="value"` in a start tag, with the whitespace before it.
func attribute(name string) *regexp.Regexp {
	return regexp.MustCompile(`\s+` + regexp.QuoteMeta(name) + `\s*=\s*("[^"]*"|'[^']*')`)
}

// set replaces an attribute's value; unset removes the attribute.
func (s *splices) set(n *tree.Node, name, value string) {
	s.replaceAttribute(n, name, " "+name+`="`+value+`"`)
}

func (s *splices) unset(n *tree.Node, name string) { s.replaceAttribute(n, name, "") }

func (s *splices) replaceAttribute(n *tree.Node, name, text string) {
	if n == nil {
		return
	}
	if at := attribute(name).FindIndex(s.source[n.Start:n.TagEnd]); at != nil {
		s.edits = append(s.edits, splice{n.Start + at[0], n.Start + at[1], text})
	}
}

// bytes applies the edits; an edit inside the range of another has no effect.
func (s *splices) bytes() []byte {
	slices.SortStableFunc(s.edits, func(a, b splice) int { return a.start - b.start })
	var out bytes.Buffer
	at := 0
	for _, e := range s.edits {
		if e.start < at {
			continue
		}

		out.Write(s.source[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}

	out.Write(s.source[at:])
	return out.Bytes()
}

func kvmAsQEMU(s *splices, root *tree.Node) {
	if root.Attr("type") == "kvm" {
		s.set(root, "type", "qemu")
	}
}

// versioned splits "pc-q35-9.2" into family and version; a vendor's name,
// "pc-q35-rhel9.6.0", has none.
var versioned = regexp.MustCompile(`^(?:pc-)?(q35|virt)-(?:(\d+)\.(\d+)$|.*)`)

func knownMachine(s *splices, root *tree.Node) {
	kind := root.Find("os", "type")
	match := versioned.FindStringSubmatch(kind.Attr("machine"))
	if match == nil {
		return
	}
	if match[2] != "" && tree.Number(match[2])*100+tree.Number(match[3]) <= 702 {
		return
	}

	s.set(kind, "machine", match[1])
}

func knownEmulator(s *splices, root *tree.Node) {
	if emulator := root.Find("devices", "emulator"); emulator != nil {
		if _, err := os.Stat(emulator.Text); err != nil {
			s.drop(emulator)
		}
	}
}

func fullSysinfo(s *splices, root *tree.Node) {
	for _, sysinfo := range root.All("sysinfo") {
		for _, section := range []string{"bios", "system", "baseBoard", "chassis"} {
			if n := sysinfo.Find(section); n != nil && len(n.Nodes) == 0 {
				s.drop(n)
			}
		}
	}
}

func slottedMaxMemory(s *splices, root *tree.Node) {
	if n := root.Find("maxMemory"); tree.Number(n.Attr("slots")) == 0 {
		s.drop(n)
	}
}

func plainDisk(s *splices, root *tree.Node) {
	for _, disk := range root.Find("devices").All("disk") {
		s.drop(disk.Find("filesystemOverhead"))
		s.drop(disk.Find("capacity"))
	}
}

func plainDiskSource(s *splices, root *tree.Node) {
	for _, disk := range root.Find("devices").All("disk") {
		if disk.Attr("type") != "network" {
			s.unset(disk.Find("source"), "name")
		}
	}
}

func plainSourceAddress(s *splices, root *tree.Node) {
	for _, hostdev := range root.Find("devices").All("hostdev") {
		s.unset(hostdev.Find("source", "address"), "type")
	}
}

func withoutIOMMUFD(s *splices, root *tree.Node) {
	s.drop(root.Find("iommufd"))
	for _, hostdev := range root.Find("devices").All("hostdev") {
		driver := hostdev.Find("driver")
		if _, present := driver.Lookup("iommufd"); !present {
			continue
		}

		if len(driver.Attrs) == 1 {
			s.drop(driver) // the schema has no <driver> without attributes
		} else {
			s.unset(driver, "iommufd")
		}
	}
}

func withoutNodeset(s *splices, root *tree.Node) {
	for _, hostdev := range root.Find("devices").All("hostdev") {
		if acpi := hostdev.Find("acpi"); acpi.Attr("nodeset") != "" {
			s.drop(acpi)
		}
	}
}

func withoutPCIBus(s *splices, root *tree.Node) {
	for _, iommu := range root.Find("devices").All("iommu") {
		if iommu.Find("driver").Attr("pciBus") != "" {
			s.drop(iommu)
		}
	}
}

func withoutVirtHole(s *splices, root *tree.Node) {
	for _, controller := range root.Find("devices").All("controller") {
		if strings.HasPrefix(root.Find("os", "type").Attr("machine"), "virt") {
			s.drop(controller.Find("pcihole64"))
		}
	}
}

func driverFirst(s *splices, root *tree.Node) {
	for _, hostdev := range root.Find("devices").All("hostdev") {
		driver, source := hostdev.Find("driver"), hostdev.Find("source")
		if driver == nil || source == nil || driver.Start < source.Start {
			continue
		}

		s.edits = append(s.edits, splice{
			source.Start, source.Start, string(s.source[driver.Start:driver.End]),
		})

		s.drop(driver)
	}
}

func lowerSSIDSize(s *splices, root *tree.Node) {
	for _, iommu := range root.Find("devices").All("iommu") {
		driver := iommu.Find("driver")
		if value, present := driver.Lookup("ssidSize"); present {
			s.replaceAttribute(driver, "ssidSize", ` ssidsize="`+value+`"`)
		}
	}
}
