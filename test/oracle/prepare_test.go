package oracle

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// demanding has something for every rule, as a newer KubeVirt on a newer libvirt
// writes it, its path for Grace included.
const demanding = `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
	<name>default_demanding</name>
	<memory unit="b">536870912</memory>
	<maxMemory unit="b" slots="0">1073741824</maxMemory>
	<os>
		<type arch="x86_64" machine="pc-q35-rhel9.6.0">hvm</type>
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
	if os.Getenv(RootVariable) != "" {
		t.Skip("the rules are those of libvirt 9")
	}
	libvirt := New(t)
	prepared, notes := Prepare([]byte(demanding))
	if len(notes) != len(rules()) {
		t.Fatalf("%d notes, want one per rule, %d: %q", len(notes), len(rules()), notes)
	}
	if _, err := libvirt.Define(prepared); err != nil {
		t.Fatalf("prepared domain: %v", err)
	}
	// The first rule depends on the machine: with a usable /dev/kvm libvirt accepts
	// the domain as it is.
	for i, r := range rules()[1:] {
		t.Run(r.name, func(t *testing.T) {
			list := slices.Delete(rules(), i+1, i+2)
			without, _ := prepare([]byte(demanding), list)
			if _, err := libvirt.Define(without); err == nil {
				t.Errorf("libvirt accepts the domain without this rule, so the rule is not needed")
			}
		})
	}
}

func TestPrepareKeepsTheRest(t *testing.T) {
	prepared, notes := Prepare([]byte(demanding))
	for _, kept := range []string{
		"\t<!-- stays -->\n", `xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"`,
		`<type arch="x86_64" machine="q35">hvm</type>`, `<domain type="qemu"`,
		`<source dev="/dev/rootdisk"></source>`,
		`<source><address domain="0x0000" bus="0x81" slot="0x00" function="0x0"></address></source>`,
		`<address type="pci" domain="0x0000" bus="2" slot="0x00" function="0x0"></address>`,
		`<controller type="pci" index="1" model="pcie-expander-bus"><target busNr="200"></target></controller>`,
	} {
		if !strings.Contains(string(prepared), kept) {
			t.Errorf("prepared domain has no %q:\n%s", kept, prepared)
		}
	}
	again, more := Prepare(prepared)
	if !bytes.Equal(again, prepared) || more != nil {
		t.Errorf("prepared twice: %q changed it again (first %q)", more, notes)
	}
}

// TestPrepareChangesNothingWithoutNeed: what this libvirt accepts stays as it is.
func TestPrepareChangesNothingWithoutNeed(t *testing.T) {
	for _, domain := range []string{good, "no xml", "<domain/>"} {
		if got, notes := Prepare([]byte(domain)); string(got) != domain || notes != nil {
			t.Errorf("Prepare changed %q (%q)", domain, notes)
		}
	}
}

func TestMachines(t *testing.T) {
	cases := map[string]string{
		"q35": "q35", "virt": "virt", "pc-q35-7.2": "pc-q35-7.2", "virt-6.1": "virt-6.1",
		"pc-q35-9.2": "q35", "pc-q35-rhel9.6.0": "q35", "virt-rhel9.4.0": "virt", "virt-10.0": "virt", "pc-i440fx-7.2": "pc-i440fx-7.2",
	}
	for in, want := range cases {
		got, _ := Prepare([]byte(`<domain><os><type machine='` + in + `'>hvm</type></os></domain>`))
		got = bytes.ReplaceAll(got, []byte("'"), []byte(`"`))
		if !strings.Contains(string(got), `machine="`+want+`"`) {
			t.Errorf("machine %s became %s, want %s", in, got, want)
		}
	}
}
