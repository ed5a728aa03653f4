package doctor_test

import (
	"strings"
	"testing"

	"hook-sidecar/test/cases"
)

// graceTests takes the domain that KubeVirt's gate writes, which QEMU accepts, and changes one
// thing in it. QEMU 11.1.2 printed its words here, with an emulated device in place of
// each GPU; those about accel, which needs KVM, are in hw/arm/smmuv3-accel.c, and those of the last
// but two in backends/iommufd.c.
func graceTests(t *testing.T) map[string]map[string]test {
	written := cases.Named(t, "../../..", "grace-gb200")
	edited := func(host string, changes []string, want ...string) test {
		domain := string(written.Request.Domain)
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(domain, changes[i]) {
				t.Fatalf("no %s in the domain", changes[i])
			}
			domain = strings.Replace(domain, changes[i], changes[i+1], 1)
		}

		return test{given{host: host, domain: domain}, want}
	}

	host := string(written.Section("host"))
	changed := func(old, now, want string) test { return edited(host, []string{old, now}, want) }
	const (
		smmu = " (set pciBus to the index of the expander bus above the GPU)"
		own  = " (give each GPU eight cells of its own without memory and CPUs, after " +
			"all others)"
		cell     = " (correct the nodeset, or add the cell)"
		window   = " (set pcihole64 to a power of two from 512 GiB on that holds the BARs)"
		separate = " (give each GPU, and each NIC that needs one, an expander bus with an " +
			"SMMUv3 of its own)"
		attached = ": QEMU: SMMU should be attached to a default PCIe root complex(pcie.0) or a " +
			"pxb-pcie based root complex" + smmu
		// another port under the first GPU's expander bus, for a device at 0000:14:00.0
		port = `<controller type="pci" index="20" model="pcie-root-port">
			<address type="pci" domain="0x0000" bus="0x01" slot="0x01" function="0x0"></address>
		</controller>
		<memballoon`
		onPort = `<address type="pci" domain="0x0000" bus="0x14" slot="0x00" function="0x0">` +
			`</address>`
		nic  = `<alias name="ua-hostdevice-nic1"></alias>`
		pass = "PASS QEMU takes cells, SMMUv3 and window"
	)

	return map[string]map[string]test{"grace": {
		"as written":                 edited(host, nil, pass),
		"no Grace elements":          {given{host: aHost, domain: domainOf(gpu)}, nil},
		"iommufd of the whole VM":    changed(`<driver iommufd="yes"></driver>`, "", pass),
		"a NIC names a cell of CPUs": changed(nic, nic+`<acpi nodeset="0"></acpi>`, pass),

		"pciBus of a root port": changed(`pciBus="3"`, `pciBus="4"`,
			"FAIL pciBus 4 of an SMMUv3 is not the index of an expander bus"+attached),
		"pciBus of no controller": changed(`pciBus="3"`, `pciBus="9"`,
			"FAIL pciBus 9 of an SMMUv3 is not the index of an expander bus"+attached),
		"a cell beyond the last": changed(`nodeset="10-17"`, `nodeset="11-18"`,
			"FAIL 0018:01:00.0 names cell 18, which does not exist in the guest: QEMU: "+
				"acpi-generic-initiator: Specified node 18 is invalid."+cell),
		"a cell of CPUs": changed(`nodeset="2-9"`, `nodeset="1-8"`,
			"FAIL 0008:01:00.0 names cell 1 for its memory, which has memory or CPUs: its "+
				"driver has no node to add memory to"+own),
		"a cell with memory": changed(`id="9" memory="0"`, `id="9" memory="4096"`,
			"FAIL 0008:01:00.0 names cell 9 for its memory, which has memory or CPUs: its "+
				"driver has no node to add memory to"+own),
		"the cells of another GPU": changed(`nodeset="10-17"`, `nodeset="9-16"`,
			"FAIL 0018:01:00.0 names cell 9 for its memory, as 0008:01:00.0 does: both add "+
				"memory to one node"+own),
		"a window of 2000 GiB": changed(`2147483648</pcihole64>`, `2097152000</pcihole64>`,
			"FAIL pcihole64 is 2097152000 KiB: QEMU: highmem-mmio-size is not a power of 2"+window),
		"a window of 256 GiB": changed(`2147483648</pcihole64>`, `268435456</pcihole64>`,
			"FAIL pcihole64 is 268435456 KiB: QEMU: highmem-mmio-size cannot be set to a lower "+
				"value than the default (512 GiB)"+window),
		"accel without iommufd": changed(`<driver iommufd="yes"></driver>`,
			`<driver iommufd="no"></driver>`,
			"FAIL 0008:01:00.0 is under the accelerated SMMUv3 of pci.1 and has no iommufd: "+
				"QEMU: vfio-pci endpoint devices without an iommufd backend not allowed when "+
				"using arm-smmuv3,accel=on (add <driver iommufd='yes'/> to the hostdev)"),
		"an emulated NIC": edited(host, []string{
			"<memballoon", port, `<alias name="ua-default">`, onPort + `<alias name="ua-default">`,
		},
			"FAIL <interface> is under the accelerated SMMUv3 of pci.1: QEMU: Emulated endpoint "+
				"devices are not allowed when using arm-smmuv3,accel=on (give it an address on "+
				"the root bus)"),
		"a second GPU": changed(`bus="0x03" slot="0x00"`, `bus="0x01" slot="0x01"`,
			"FAIL 0018:01:00.0 is under the accelerated SMMUv3 of pci.1 with 0008:01:00.0 of "+
				"another PCIe root: QEMU: IOMMU_VDEVICE_ALLOC failed: Invalid argument"+separate),
		"a NIC": edited(host, []string{"<memballoon", port, nic, nic + onPort},
			"FAIL 0000:01:00.0 is under the accelerated SMMUv3 of pci.1 with 0008:01:00.0 of "+
				"another PCIe root: QEMU: IOMMU_VDEVICE_ALLOC failed: Invalid argument"+separate),
		"GB300, which KubeVirt does not know": edited(strings.Replace(host, "device=0x2941",
			"device=0x31c2", 1), []string{
			`<acpi nodeset="2-9"></acpi>`, "",
		},
			"FAIL 0008:01:00.0 (10de:31c2) names no cells for its memory: its driver has no "+
				"node to add memory to (enable KubeVirt's gate GraceIOVirtualization; 1.9 knows "+
				"10de:2342, 2348 and 2941, and no version 2345 or GB300's 31c2)"),
	}, "bar-window": {
		// Each GPU's window begins at a multiple of its BAR of 1 TiB.
		"pcihole64 under the BARs": edited(strings.ReplaceAll(host, "bar=37,24", "bar=40,24"), nil,
			"FAIL 64-bit BARs of 2.1 TiB take 4.1 TiB with alignment and hotplug ports, the "+
				"window has 2 TiB: pcihole64 (set pcihole64 of the pcie-root controller to a "+
				"larger power of two (libvirt 12.8))"),
		"pcihole64": edited(host, nil,
			"PASS 64-bit BARs of 256.1 GiB, the window has 2 TiB: pcihole64"),
	}, "guest-numa": {
		"cells of GPUs are no sockets": edited(host, nil, "PASS 2 guest NUMA cells"),
	}}
}
