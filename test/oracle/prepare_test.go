package oracle

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// demanding has something for every rule, as a newer KubeVirt on a newer libvirt
// writes it on Grace.
const demanding = `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
	<name>default_demanding</name>
	<memory unit="b">536870912</memory>
	<maxMemory unit="b" slots="0">1073741824</maxMemory>
	<os>
		<type arch="aarch64" machine="virt-rhel9.6.0">hvm</type>
		<smbios mode="sysinfo"></smbios>
	</os>
	<!-- stays -->
	<sysinfo type="smbios">
		<system><entry name="manufacturer">KubeVirt</entry></system>
		<bios></bios>
	</sysinfo>
	<devices>
		<emulator>/nonexistent/qemu-kvm</emulator>
		<disk device="disk" type="block" model="virtio-non-transitional">
			<source dev="/dev/rootdisk" name="rootdisk"></source>
			<target bus="virtio" dev="vda"></target>
			<filesystemOverhead>0</filesystemOverhead>
			<capacity>214748364800</capacity>
		</disk>
		<controller type="usb" index="0" model="none"></controller>
		<controller type="pci" index="0" model="pcie-root"><pcihole64 unit="KiB">1073741824</pcihole64></controller>
		<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200"></target></controller>
		<controller type="pci" index="2" model="pcie-root-port"><address type="pci" domain="0x0000" bus="1" slot="0x00" function="0x0"></address></controller>
		<hostdev type="pci" managed="no">
			<source><address type="pci" domain="0x0000" bus="0x81" slot="0x00" function="0x0"></address></source>
			<address type="pci" domain="0x0000" bus="2" slot="0x00" function="0x0"></address>
			<driver iommufd="yes"></driver>
			<acpi nodeset="1-8"></acpi>
		</hostdev>
		<iommu model="smmuv3"><driver pciBus="1" accel="on" ats="on" ril="off" ssidSize="20" oas="48"></driver></iommu>
	</devices>
	<vcpu placement="static">1</vcpu>
	<iommufd enabled="yes" fdgroup="iommu"></iommufd>
</domain>`

func TestEveryRuleIsNeeded(t *testing.T) {
	libvirt := New(t)
	list := rulesOf(libvirt.version)
	prepared, notes := prepare([]byte(demanding), list)
	if len(notes) != len(list) {
		t.Fatalf("%d notes, want one per rule, %d: %q", len(notes), len(list), notes)
	}

	if _, err := libvirt.Define(prepared); err != nil {
		skipWithoutEmulator(t, err)
		t.Fatalf("prepared domain: %v", err)
	}

	// The first rule depends on the machine: with a usable /dev/kvm libvirt accepts
	// the domain as it is.
	for i, r := range list[1:] {
		t.Run(r.name, func(t *testing.T) {
			without, _ := prepare([]byte(demanding), slices.Delete(slices.Clone(list), i+1, i+2))
			if _, err := libvirt.Define(without); err == nil {
				t.Errorf("libvirt accepts the domain without this rule, so the rule is not needed")
			}
		})
	}
}

// oldest returns the rules of the oldest libvirt that is tested.
func oldest() []rule { return rulesOf(version(9, 0)) }

func TestPrepareKeepsTheRest(t *testing.T) {
	prepared, notes := prepare([]byte(demanding), oldest())
	for _, kept := range []string{
		"\t<!-- stays -->\n", `xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"`,
		`<type arch="aarch64" machine="virt">hvm</type>`, `<domain type="qemu"`,
		`<source dev="/dev/rootdisk"></source>`,
		`<source><address domain="0x0000" bus="0x81" slot="0x00" function="0x0"></address></source>`,
		`<address type="pci" domain="0x0000" bus="2" slot="0x00" function="0x0"></address>`,
		`<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200">` +
			`</target></controller>`,
	} {
		if !strings.Contains(string(prepared), kept) {
			t.Errorf("prepared domain has no %q:\n%s", kept, prepared)
		}
	}

	again, more := prepare(prepared, oldest())
	if !bytes.Equal(again, prepared) || more != nil {
		t.Errorf("prepared twice: %q changed it again (first %q)", more, notes)
	}
}

// TestPrepareChangesNothingWithoutNeed: what this libvirt accepts stays as it is.
func TestPrepareChangesNothingWithoutNeed(t *testing.T) {
	for _, domain := range []string{good, "no xml", "<domain/>"} {
		if got, notes := prepare([]byte(domain), oldest()); string(got) != domain || notes != nil {
			t.Errorf("prepare changed %q (%q)", domain, notes)
		}
	}
}

func TestMachines(t *testing.T) {
	cases := map[string]string{
		"q35": "q35", "virt": "virt", "pc-q35-7.2": "pc-q35-7.2", "virt-6.1": "virt-6.1",
		"pc-q35-9.2": "q35", "pc-q35-rhel9.6.0": "q35", "virt-rhel9.4.0": "virt",
		"virt-10.0": "virt", "pc-i440fx-7.2": "pc-i440fx-7.2",
	}
	for in, want := range cases {
		got, _ := prepare([]byte(`<domain><os><type machine='`+in+`'>hvm</type></os></domain>`),
			oldest())
		got = bytes.ReplaceAll(got, []byte("'"), []byte(`"`))
		if !strings.Contains(string(got), `machine="`+want+`"`) {
			t.Errorf("machine %s became %s, want %s", in, got, want)
		}
	}
}
