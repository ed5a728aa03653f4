package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/plan"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
)

// The domain before virt-launcher's hostdevs. It has no NUMA cells, so that no
// address is added to them.
const withoutHostdevs = `<domain type="kvm">
	<name>default_vm</name>
	<os>
		<type arch="x86_64" machine="q35">hvm</type>
	</os>
	<devices>
		<controller type="usb" index="0" model="none"></controller>
		<graphics type="vnc"></graphics>
	</devices>
</domain>
`

// Two PCI addresses of KubeVirt's tests, and two UUIDs.
const (
	pci0  = "0000:81:01.0"
	pci1  = "0000:81:01.1"
	uuid0 = "123e4567-e89b-12d3-a456-426614174000"
	uuid1 = "123e4567-e89b-12d3-a456-426614174001"
)

// pciXML returns a PCI hostdev as virt-launcher v1.9.0 writes it (pkg/virt-launcher/
// virtwrap/device/hostdevice/hostdev.go, createPCIHostDevice), with the mode that it leaves out.
// Attributes are those of display.
func pciXML(alias, address, attributes string) string {
	part := strings.NewReplacer(":", " ", ".", " ").Replace(address)
	f := strings.Fields(part)
	return fmt.Sprintf(`<hostdev type="pci" managed="no" mode="subsystem"%s><source>`+
		`<address type="pci" domain="0x%s" bus="0x%s" slot="0x%s" function="0x%s"></address>`+
		`</source><alias name="%s"></alias></hostdev>`,
		attributes, f[0], f[1], f[2], f[3], alias)
}

// mdevXML returns a mediated hostdev as virt-launcher v1.9.0 writes it (createMDEVHostDevice).
func mdevXML(alias, uuid, attributes string) string {
	return fmt.Sprintf(`<hostdev type="mdev" mode="subsystem" model="vfio-pci"%s><source>`+
		`<address uuid="%s"></address></source><alias name="%s"></alias></hostdev>`, attributes,
		uuid, alias)
}

const (
	displayOnly     = ` display="on"`
	displayAndRamFB = ` display="on" ramfb="on"`
)

// hostdevCase is a VMI and environment variables, and the hostdevs that
// virt-launcher makes of them.
type hostdevCase struct {
	name        string
	gpus        []v1.GPU
	hostDevices []v1.HostDevice
	variables   []string
	want        []string // hostdevs in order
	warnings    []string // codes, where virt-launcher fails the VM
}

func TestKubeVirtHostdevs(t *testing.T) {
	for _, cases := range [][]hostdevCase{
		poolCases(), listCases(), pciDisplayCases(), mdevDisplayCases(),
	} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { c.run(t) })
		}
	}
}

func (c hostdevCase) run(t *testing.T) {
	var vmi v1.VirtualMachineInstance
	vmi.Spec.Domain.Devices.GPUs, vmi.Spec.Domain.Devices.HostDevices = c.gpus, c.hostDevices
	vmiJSON, err := json.Marshal(vmi)
	expect.NoError(t, err)

	// An empty sysfs: what is written must not depend on the host.
	m := plan.Planner{Sysfs: fstest.MapFS{}}
	m.Variables, m.Problems = env.ParseVariables(c.variables)
	result := m.Read(plan.Request{Domain: []byte(withoutHostdevs), VMI: vmiJSON}).Plan()
	if result.Err != nil {
		t.Fatal(result.Err)
	}

	want := hostdevsOf(t, "<domain type='kvm'><devices>"+strings.Join(c.want, "")+
		"</devices></domain>")
	expect.Same(t, want, hostdevsOf(t, string(result.Domain)), "hostdevs (-virt-launcher +hook)")
	var warnings []string
	for _, w := range result.Plan.Warnings {
		// No device is in the empty sysfs.
		if code := w.Code; code != reasons.CodeNoSysfs {
			warnings = append(warnings, string(code))
		}
	}

	expect.Same(t, c.warnings, warnings, "warnings (-want +got)")
}

func hostdevsOf(t *testing.T, xml string) []libvirtxml.DomainHostdev {
	t.Helper()
	var d libvirtxml.Domain
	if err := d.Unmarshal(xml); err != nil {
		t.Fatalf("libvirtxml: %v", err)
	}

	return d.Devices.Hostdevs
}

func gpus(resources ...string) []v1.GPU {
	list := make([]v1.GPU, len(resources))
	for i, r := range resources {
		list[i] = v1.GPU{Name: fmt.Sprintf("gpu_name%d", i), DeviceName: r}
	}
	return list
}

func hostDevices(resources ...string) []v1.HostDevice {
	list := make([]v1.HostDevice, len(resources))
	for i, r := range resources {
		list[i] = v1.HostDevice{Name: fmt.Sprintf("hostdev_name%d", i), DeviceName: r}
	}
	return list
}

// poolCases returns the cases of addresspool_test.go, generic/addresspool_test.go and
// gpu/addresspool_test.go: which device gets which address. Where KubeVirt's pool returns an error
// the VM does not start; here the device is reported.
func poolCases() []hostdevCase {
	const resource0, resource1 = "vendor.com/hostdev_name0", "vendor.com/hostdev_name1"
	const variable0, variable1 = "PCI_RESOURCE_VENDOR_COM_HOSTDEV_NAME0", "PCI_RESOURCE_VENDOR_COM_HOSTDEV_NAME1"
	const first, second = "ua-hostdevice-hostdev_name0", "ua-hostdevice-hostdev_name1"
	missing := []string{"device-not-allocated"}
	return []hostdevCase{
		{name: "no device in the spec", variables: []string{variable0 + "=" + pci0}},
		{name: "variable unset", hostDevices: hostDevices(resource0), warnings: missing},
		{name: "variable empty", hostDevices: hostDevices(resource0), variables: []string{
			variable0 + "=",
		}, warnings: missing},
		{
			name: "bad address", hostDevices: hostDevices(resource0),
			variables: []string{variable0 + "=0bad0pci0address0"},
			warnings:  []string{"bad-variable-value", "device-not-allocated"},
		},
		{
			name: "two addresses of one resource", hostDevices: hostDevices(resource0, resource0),
			variables: []string{variable0 + "=" + pci0 + "," + pci1},
			want:      []string{pciXML(first, pci0, ""), pciXML(second, pci1, "")},
		},
		{
			name: "two resources", hostDevices: hostDevices(resource0, resource1),
			variables: []string{variable0 + "=" + pci0, variable1 + "=" + pci1},
			want:      []string{pciXML(first, pci0, ""), pciXML(second, pci1, "")},
		},
		{
			name: "two devices and one address", hostDevices: hostDevices(resource0, resource0),
			variables: []string{variable0 + "=" + pci0},
			want:      []string{pciXML(first, pci0, "")}, warnings: missing,
		},
		{
			name: "one address in two resources", hostDevices: hostDevices(resource0, resource1),
			variables: []string{variable0 + "=" + pci0, variable1 + "=" + pci0 + "," + pci1},
			want:      []string{pciXML(first, pci0, ""), pciXML(second, pci1, "")},
		},
		{
			name: "trailing comma", hostDevices: hostDevices(resource0),
			variables: []string{variable0 + "=" + pci0 + ","},
			want:      []string{pciXML(first, pci0, "")},
		},
		{
			name:        "mediated devices of one resource",
			hostDevices: hostDevices(resource0, resource0),
			variables:   []string{"MDEV_" + variable0 + "=" + uuid1 + "," + uuid0},
			want:        []string{mdevXML(first, uuid1, ""), mdevXML(second, uuid0, "")},
		},
	}
}

// listCases returns the cases of generic/hostdev_test.go and gpu/hostdev_test.go: PCI and mediated
// devices of both lists, and the order between them (converter/converter.go: generic before gpus,
// PCI before mediated).
func listCases() []hostdevCase {
	const pciResource, mdevResource = "vendor.com/dev_pci", "vendor.com/dev_mdev"
	variables := func(pci, mdev string) []string {
		return []string{
			"PCI_RESOURCE_VENDOR_COM_DEV_PCI=" + pci,
			"MDEV_PCI_RESOURCE_VENDOR_COM_DEV_MDEV=" + mdev,
		}
	}

	return []hostdevCase{
		{name: "nothing at all"},
		{
			name: "generic PCI and mediated", hostDevices: hostDevices(pciResource, mdevResource),
			variables: variables(pci0, uuid0),
			want: []string{
				pciXML("ua-hostdevice-hostdev_name0", pci0, ""),
				mdevXML("ua-hostdevice-hostdev_name1", uuid0, ""),
			},
		},
		{
			name: "gpu PCI and mediated", gpus: gpus(pciResource, mdevResource),
			variables: variables(pci0, uuid0),
			want: []string{
				pciXML("ua-gpu-gpu_name0", pci0, ""),
				mdevXML("ua-gpu-gpu_name1", uuid0, displayAndRamFB),
			},
		},
		{
			name:        "mediated first in both lists",
			gpus:        gpus(mdevResource, pciResource),
			hostDevices: hostDevices(mdevResource, pciResource),
			variables:   variables(pci0+","+pci1, uuid0+","+uuid1),
			want: []string{
				pciXML("ua-hostdevice-hostdev_name1", pci0, ""),
				mdevXML("ua-hostdevice-hostdev_name0", uuid0, ""),
				pciXML("ua-gpu-gpu_name1", pci1, ""),
				mdevXML("ua-gpu-gpu_name0", uuid1, displayAndRamFB),
			},
		},
		{
			name: "two gpus of two resources", gpus: gpus("vendor.com/a", "vendor.com/b"),
			variables: []string{
				"MDEV_PCI_RESOURCE_VENDOR_COM_A=" + uuid1,
				"MDEV_PCI_RESOURCE_VENDOR_COM_B=" + uuid0,
			},
			want: []string{
				mdevXML("ua-gpu-gpu_name0", uuid1, displayAndRamFB),
				mdevXML("ua-gpu-gpu_name1", uuid0, ""),
			},
		},
	}
}

// displayOptions returns virtualGPUOptions with a display; ramFB nil leaves it out.
func displayOptions(enabled *bool, ramFB *v1.FeatureState) *v1.VGPUOptions {
	return &v1.VGPUOptions{Display: &v1.VGPUDisplayOptions{Enabled: enabled, RamFB: ramFB}}
}

func state(enabled bool) *v1.FeatureState { return &v1.FeatureState{Enabled: &enabled} }

// pciDisplayCases returns the cases of hostdev_test.go about the display of PCI vGPUs. In v1.9.0
// both display and ramfb have to be enabled explicitly; later versions give a display a ramfb
// unless that is disabled.
func pciDisplayCases() []hostdevCase {
	yes, no := true, false
	var cases []hostdevCase
	for _, c := range []struct {
		name, want string
		options    *v1.VGPUOptions
	}{
		{"no options", "", nil},
		{"options without display", "", &v1.VGPUOptions{}},
		{"display without enabled", "", displayOptions(nil, nil)},
		{"display disabled", "", displayOptions(&no, nil)},
		{"display disabled and ramfb enabled", "", displayOptions(&no, state(true))},
		{"display enabled", displayOnly, displayOptions(&yes, nil)},
		{"display enabled and ramfb disabled", displayOnly, displayOptions(&yes, state(false))},
		{"display enabled and ramfb unsaid", displayOnly, displayOptions(&yes, &v1.FeatureState{})},
		{"both enabled", displayAndRamFB, displayOptions(&yes, state(true))},
	} {
		list := gpus("vendor.com/gpu")
		list[0].VirtualGPUOptions = c.options
		cases = append(cases, hostdevCase{
			name: "PCI gpu, " + c.name, gpus: list,
			variables: []string{"PCI_RESOURCE_VENDOR_COM_GPU=" + pci0},
			want:      []string{pciXML("ua-gpu-gpu_name0", pci0, c.want)},
		})
	}

	return cases
}

// mdevDisplayCases returns the cases of hostdev_test.go and gpu/hostdev_test.go about the display
// of mediated vGPUs: without any display options the first has one, with them each follows its
// own.
func mdevDisplayCases() []hostdevCase {
	yes, no := true, false
	var cases []hostdevCase
	for _, c := range []struct {
		name          string
		first, second *v1.VGPUOptions
		want          [2]string
	}{
		{"no options", nil, nil, [2]string{displayAndRamFB, ""}},
		{"options without display", &v1.VGPUOptions{}, nil, [2]string{displayAndRamFB, ""}},
		{"second enabled", nil, displayOptions(&yes, state(true)), [2]string{"", displayAndRamFB}},
		{"second without enabled", nil, displayOptions(nil, nil), [2]string{"", displayAndRamFB}},
		{"first disabled", displayOptions(&no, nil), nil, [2]string{"", ""}},
		{"first without ramfb", displayOptions(nil, state(false)), nil, [2]string{displayOnly, ""}},
		{"both enabled", displayOptions(&yes, nil), displayOptions(&yes, nil), [2]string{
			displayAndRamFB, displayAndRamFB,
		}},
	} {
		list := gpus("vendor.com/gpu", "vendor.com/gpu")
		list[0].VirtualGPUOptions, list[1].VirtualGPUOptions = c.first, c.second
		cases = append(cases, hostdevCase{
			name: "mediated gpus, " + c.name, gpus: list,
			variables: []string{"MDEV_PCI_RESOURCE_VENDOR_COM_GPU=" + uuid0 + "," + uuid1},
			want: []string{
				mdevXML("ua-gpu-gpu_name0", uuid0, c.want[0]),
				mdevXML("ua-gpu-gpu_name1", uuid1, c.want[1]),
			},
		})
	}

	one := gpus("vendor.com/gpu")
	return append(cases, hostdevCase{
		name: "one mediated gpu, no options", gpus: one,
		variables: []string{"MDEV_PCI_RESOURCE_VENDOR_COM_GPU=" + uuid0},
		want:      []string{mdevXML("ua-gpu-gpu_name0", uuid0, displayAndRamFB)},
	})
}
