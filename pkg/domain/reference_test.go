package domain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReferences(t *testing.T) {
	const space = "http://libvirt.org/schemas/domain/qemu/1.0"
	controllers := `<controller type='pci' index='1' model='pcie-expander-bus'>` +
		`<alias name='ua-pxb'/></controller>` +
		`<controller type='pci' index='2' model='pcie-root-port'><alias name='ua-port'/>` +
		`</controller>`
	one, two := []int{1}, []int{2}
	for _, test := range []struct {
		name, xmlns, xml, devices string
		want                      []int
	}{
		{"iommu", "", "", `<iommu model='smmuv3'><driver pciBus='1'/></iommu>`, one},
		{"override by alias", `xmlns:qemu='` + space + `'`,
			`<qemu:override><qemu:device alias='ua-pxb'/></qemu:override>`, "", one},
		{"override by name", `xmlns:qemu='` + space + `'`,
			`<qemu:override><qemu:device alias='pci.1'/><qemu:device alias='pci.1'/>` +
				`</qemu:override>`, "", one},
		{"other prefix", `xmlns:q='` + space + `'`,
			`<q:override><q:device alias='pci.1'/></q:override>`, "", one},
		{"prefix on the element", "", `<z:override xmlns:z='` + space +
			`'><z:device alias='pci.1'/></z:override>`, "", one},
		{"default namespace", "", `<commandline xmlns='` + space +
			`'><arg value='x,bus=pci.2'/></commandline>`, "", two},
		{"argument with alias", `xmlns:qemu='` + space + `'`,
			`<qemu:commandline><qemu:arg value='virtio-net-pci,bus=ua-port'/></qemu:commandline>`,
			"", two},
		{"argument in JSON", `xmlns:qemu='` + space + `'`,
			`<qemu:commandline><qemu:arg value='{"bus":"pci.2"}'/></qemu:commandline>`, "", two},
		{"index without a controller", `xmlns:qemu='` + space + `'`,
			`<qemu:commandline><qemu:arg value='bus=pci.30,addr=0'/></qemu:commandline>`, "", []int{
				30,
			}},
		{"parts of words", `xmlns:qemu='` + space + `'`,
			`<qemu:commandline>` +
				`<qemu:arg value='xpci.2,pci.2x,ua-port-2,pci.2.0,-pci.2,pci.,pci.+2,pci.300,` +
				`pcie.0'/></qemu:commandline>`, "", nil},
		{"environment", `xmlns:qemu='` + space + `'`,
			`<qemu:commandline><qemu:env name='A' value='pci.2'/></qemu:commandline>`, "", nil},
		{"other namespace", `xmlns:qemu='urn:other'`,
			`<qemu:override><qemu:device alias='pci.1'/></qemu:override>`, "", nil},
		{"no namespace", "", `<override><device alias='pci.1'/></override>`, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := parse(t, `<domain `+test.xmlns+`><devices>`+controllers+test.devices+`</devices>`+
				test.xml+`</domain>`)
			if diff := cmp.Diff(test.want, d.References, equal); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}
