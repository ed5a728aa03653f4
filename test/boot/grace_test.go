package boot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// graceDistance returns the distance of two cells, each with the GPU whose cell it is. The first
// two cells are a CPU's, and gpu is the number of theirs (KubeVirt's fallback, but for the two
// CPUs: libvirt's).
func graceDistance(i, gpu, j, otherGPU int) int {
	switch isCPU := min(i, j) < 2; {
	case i == j:
		return 10
	case max(i, j) < 2:
		return 20
	case isCPU && gpu == otherGPU:
		return 80
	case isCPU:
		return 120
	case gpu == otherGPU:
		return 11
	}

	return 40
}

// graceDomain returns the domain of a machine as KubeVirt's gate GraceIOVirtualization writes it,
// without acceleration: an expander bus with an SMMUv3 per GPU, eight cells without memory per
// GPU, a window. Nothing has placed the NIC.
func graceDomain(m *machine) string {
	gpuOf := func(cell int) int {
		if cell < 2 {
			return cell
		}
		return (cell - 2) / 8
	}

	var cells strings.Builder
	for i := 2; i < 18; i++ {
		fmt.Fprintf(&cells, `<cell id='%d' memory='0' unit='KiB'><distances>`, i)
		for j := range 18 {
			fmt.Fprintf(&cells, `<sibling id='%d' value='%d'/>`, j,
				graceDistance(i, gpuOf(i), j, gpuOf(j)))
		}

		cells.WriteString(`</distances></cell>`)
	}

	const gpu = `<acpi nodeset='%s'/><alias name='ua-hostdevice-%d'/>` +
		`<address type='pci' domain='0x0000' bus='%s' slot='0x00' function='0x0'/>`
	return strings.NewReplacer(
		`<alias name='ua-hostdevice-0'/>`, fmt.Sprintf(gpu, "2-9", 0, "0x02"),
		`<alias name='ua-hostdevice-1'/>`, fmt.Sprintf(gpu, "10-17", 1, "0x04"),
		`</numa>`, cells.String()+`</numa>`,
		`<devices>`, `<devices>
<controller type='pci' index='0' model='pcie-root'><pcihole64 unit='KiB'>1073741824</pcihole64></controller>
<controller type='pci' index='1' model='pcie-expander-bus'><target busNr='254'><node>0</node></target></controller>
<controller type='pci' index='2' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></controller>
<controller type='pci' index='3' model='pcie-expander-bus'><target busNr='252'><node>1</node></target></controller>
<controller type='pci' index='4' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x03' slot='0x00' function='0x0'/></controller>
<iommu model='smmuv3'><driver pciBus='1'/></iommu>
<iommu model='smmuv3'><driver pciBus='3'/></iommu>`,
	).Replace(string(m.domain()))
}

// TestGrace boots a domain of KubeVirt's gate GraceIOVirtualization in which the hook has placed
// the NIC, and defines it as accelerated: QEMU starts that with KVM only ("SMMUv3 accel=on
// requires KVM with kernel-irqchip=on support").
func TestGrace(t *testing.T) {
	t.Parallel()
	if os.Getenv(oracle.RootVariable) == "" {
		t.Skip("needs libvirt 12.8 and QEMU 10.2; `make newest` has them")
	}

	b := newBench(t, arm64(), Debian13Variable, "kernel-arm64")
	m := ports(3) // two GPUs, and a NIC beside the first
	m.aarch64 = true

	// the GPUs are kept
	flags := slices.DeleteFunc(m.flags(t, "numa"), func(flag string) bool {
		return flag == "--strict"
	})

	t.Run("boots", func(t *testing.T) {
		t.Parallel()
		placed, err := mutate(b.binary, []byte(graceDomain(m)), flags...)
		expect.NoError(t, err)
		domain := b.libvirt.Check(t, placed)
		plan, err := explain(b.binary, domain, flags...)
		expect.NoError(t, err)
		guest := b.boot(t, domain, AAVMF2025, m.instead)
		b.checkGuest(t, guest, plan, domain, flags)
		iommus := map[string]string{}
		for _, d := range guest.Devices {
			iommus[d.Label] = d.IOMMU
		}

		first, second, nic := iommus[m.hostdevs[0]], iommus[m.hostdevs[1]], iommus[m.hostdevs[2]]
		if first == second || !strings.HasPrefix(first, "smmu3.") ||
			!strings.HasPrefix(second, "smmu3.") || nic != "." {
			t.Errorf("IOMMUs %q: want one per GPU, and none before the NIC", iommus)
		}

		checkNodes(t, guest)
	})

	t.Run("accelerated", func(t *testing.T) {
		t.Parallel()
		placed, err := mutate(b.binary, []byte(strings.NewReplacer(
			`/></iommu>`, ` accel='on' ats='on' ril='off' ssidSize='20' oas='48'/></iommu>`,
			`<devices>`, `<iommufd enabled='yes' fdgroup='iommu'/><devices>`,
			`<source><address`, `<driver iommufd='yes'/><source><address`,
		).Replace(graceDomain(m))), flags...)

		expect.NoError(t, err)
		readback := string(b.libvirt.Check(t, placed))
		for text, want := range map[string]int{
			` accel='on' ats='on' ril='off' ssidsize='20' oas='48'/>`: 2,
			`<iommufd enabled='yes' fdgroup='iommu'/>`:                1,
			`<driver iommufd='yes'/>`:                                 3,
			`<acpi nodeset='2-9'/>`:                                   1,
			`<acpi nodeset='10-17'/>`:                                 1,
			`memory='0' unit='KiB'>`:                                  16,
			`<pcihole64 unit='KiB'>1073741824<`:                       1,
		} {
			expect.Same(t, want, strings.Count(readback, text), "%s in libvirt's domain", text)
		}
	})
}

// checkNodes: the kernel has each node that is neither a CPU's nor memory's as a generic
// initiator, at the distances of a cell of one GPU. Which cell is not known: Linux numbers them
// in the order of QEMU's table, which is not that of the cells. Debian's kernel has 16 nodes
// (CONFIG_NODES_SHIFT=4), so it ignores two of the 18.
func checkNodes(t *testing.T, guest *Guest) {
	t.Helper()
	expect.Same(t, "2-15", guest.Nodes["has_generic_initiator"], "generic initiators")
	var gpuOf [16]int
	var rows [16][]string
	for node := range gpuOf {
		rows[node] = strings.Fields(guest.Nodes[fmt.Sprintf("node%d/distance", node)])
		if node == 1 || node > 1 && rows[node][0] != "80" {
			gpuOf[node] = 1
		}
	}

	for i, gpu := range gpuOf {
		var want []string
		for j, other := range gpuOf {
			want = append(want, fmt.Sprint(graceDistance(i, gpu, j, other)))
		}
		expect.Same(t, want, rows[i], "distances of node %d", i)
	}
}
