package domain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Error is a part of a domain that cannot be read, with its line and column.
type Error = xmledit.Error

// Parse reads a domain. The error is an *Error: of xmledit.Parse, or for a root other than
// <domain>, or for a number that placement needs and libvirt would refuse.
//
// As in libvirt, elements and attributes count without a namespace, and qemu: elements in that
// of QEMU.
func Parse(src []byte) (*Domain, error) {
	xml, err := xmledit.Parse(src)
	if err != nil {
		return nil, err
	}

	root := xml.Root()
	if !root.Is("", "domain") {
		name := "<" + words.Abridge(root.Name) + ">"
		if root.Space != "" {
			name += fmt.Sprintf(" in namespace %q", words.Abridge(root.Space))
		}
		return nil, xml.Errorf(root.Open().Start, "the root element is %s, want <domain>", name)
	}

	r := &reader{xml: xml, domain: &Domain{doc: &document{xml: xml}}}
	for _, step := range []func(*xmledit.Element) error{
		r.general, r.addressing, r.cells, r.memnodes, r.pins, r.controllers, r.devices,
	} {
		if err := step(root); err != nil {
			return nil, err
		}
	}

	for _, k := range kinds {
		k.read(r, root)
	}

	if err := r.references(root); err != nil {
		return nil, err
	}

	return r.domain, nil
}

func (r *reader) general(root *xmledit.Element) error {
	d := r.domain
	d.Name = r.xml.Text(root.Child("name"))

	// KubeVirt pkg/virt-launcher/virtwrap/api/schema.go, KubeVirtMetadata
	d.UID = r.xml.Text(first(root, "metadata", "kubevirt:kubevirt", "kubevirt:uid"))
	kind := first(root, "os", "type")
	d.Arch, d.Machine = kind.Value("arch"), kind.Value("machine")
	d.LaunchSecurity = root.Child("launchSecurity") != nil
	d.HyperV = hasHyperV(first(root, "features", "hyperv"))
	d.HidesKVM = first(root, "features", "kvm", "hidden").Value("state") == "on"
	loader := first(root, "os", "loader").Value("type")

	// Stateless OVMF of confidential guests is a rom, as SeaBIOS is elsewhere (KubeVirt
	// pkg/virt-launcher/virtwrap/converter/compute/os.go).
	d.UEFI = loader == "pflash" || loader == "rom" && d.LaunchSecurity ||
		root.Child("os").Value("firmware") == "efi"
	d.doc.devices = slices.Collect(all(root, "devices"))

	vcpus, _ := number(strings.TrimSpace(r.xml.Text(root.Child("vcpu"))), 10)
	d.VCPUs = int(min(vcpus, maxVCPUs))
	d.CPUVendor = strings.TrimSpace(r.xml.Text(first(root, "cpu", "vendor")))
	d.CPUModel = strings.TrimSpace(r.xml.Text(first(root, "cpu", "model")))
	for arg := range all(root, "qemu:commandline", "qemu:arg") {
		d.Args = append(d.Args, arg.Value("value"))
	}

	return r.memory(root)
}

// hasHyperV reports whether features/hyperv turns a feature on: one of its own, or the host's by mode
// passthrough or host-model.
func hasHyperV(hyperv *xmledit.Element) bool {
	if hyperv == nil {
		return false
	}

	isOn := func(e *xmledit.Element) bool { return e.Value("state") == "on" }
	mode := hyperv.Value("mode")
	return mode != "" && mode != "custom" || slices.ContainsFunc(hyperv.Children, isOn)
}

// maxVCPUs is more than any QEMU has.
const maxVCPUs = 1 << 16

func (r *reader) memory(root *xmledit.Element) (err error) {
	d := r.domain
	if memory := root.Child("memory"); memory != nil {
		if d.MemoryBytes, err = r.scaled(memory); err != nil {
			return err
		}
	}

	if most := root.Child("maxMemory"); most != nil {
		// Placement does not need it: a number that libvirt would refuse counts as absent.
		d.MaxMemoryBytes, _ = r.scaled(most)
		d.MemorySlots, _ = number(most.Value("slots"), 10)
	}

	if limit := first(root, "memtune", "hard_limit"); limit != nil {
		d.HardLimitBytes, _ = r.scaled(limit)
	}

	d.HugePages = first(root, "memoryBacking", "hugepages") != nil
	return nil
}

func (r *reader) cells(root *xmledit.Element) error {
	if e := first(root, "cpu", "topology"); e != nil {
		sockets, _ := number(e.Value("sockets"), 10)
		r.domain.Sockets = int(min(sockets, math.MaxInt32))
	}

	for e := range all(root, "cpu", "numa", "cell") {
		id, ok, err := r.attrNumber(e, "id", 10, 0, math.MaxInt32)
		if err != nil {
			return err
		}

		if !ok {
			id = uint64(len(r.domain.Cells))
		}

		memory, isNumber := number(e.Value("memory"), 10)
		r.domain.Cells = append(r.domain.Cells, Cell{
			ID: topology.CellID(id), CPUs: e.Value("cpus"), Memoryless: isNumber && memory == 0,
		})
	}

	return nil
}

func (r *reader) memnodes(root *xmledit.Element) error {
	for e := range all(root, "numatune", "memnode") {
		cell, err := r.required(e, "cellid")
		if err != nil {
			return err
		}

		r.domain.Memnodes = append(r.domain.Memnodes, Memnode{
			Cell: topology.CellID(cell), Nodeset: e.Value("nodeset"),
		})
	}

	return nil
}

func (r *reader) pins(root *xmledit.Element) error {
	for e := range all(root, "cputune", "vcpupin") {
		vcpu, err := r.required(e, "vcpu")
		if err != nil {
			return err
		}
		r.domain.Pins = append(r.domain.Pins, VCPUPin{VCPU: vcpu, CPUSet: e.Value("cpuset")})
	}

	return nil
}

// WindowEntry is the fw_cfg entry with the least size of OVMF's 64-bit window, in MiB (edk2
// OvmfPkg/Library/PlatformInitLib/MemDetect.c).
const WindowEntry = "opt/ovmf/X-PciMmio64Mb"

// maxWindowMiB is the size of the address space of 52 bits, x86's most (Intel SDM volume 3, 4.1.4).
const maxWindowMiB = 1 << (52 - 20)

func (r *reader) addressing(root *xmledit.Element) error {
	a := &r.domain.Addressing
	a.CPUMode = root.Child("cpu").Value("mode")
	e := first(root, "cpu", "maxphysaddr")
	a.HostBits = e.Value("mode") == "passthrough"
	a.PhysBits, a.LimitBits = physBits(e.Value("bits")), physBits(e.Value("limit"))
	return nil
}

// WindowBytes returns the value of WindowEntry in bytes, 0 where it is absent or not a number.
func (d *Domain) WindowBytes() uint64 {
	o := d.FWCfg(WindowEntry)
	if o == nil {
		return 0
	}

	n, ok := number(o.Key("string"), 10)
	if !ok || n > maxWindowMiB {
		return 0
	}

	return n << 20
}

// physBits reads a number of address bits, 0 for anything else.
func physBits(s string) int {
	n, ok := number(s, 10)
	if !ok || n > 64 {
		return 0
	}
	return int(n)
}
