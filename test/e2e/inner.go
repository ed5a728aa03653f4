package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hook-sidecar/test/boot"
)

// inner is an inner guest.
type inner struct {
	name    string
	flags   string // of the program under test
	layout  string
	devices []Device

	kernel string // parameters of the guest's kernel, beside those of every guest
	rest   string // of the domain
}

// inners returns the guests that the node starts, one after the other. The device without a PCI
// parent is not placed, which strict would refuse.
func inners() []inner {
	all := append(Devices(), Device{loose, "4348:3253"})
	return []inner{
		{"numa", "--layout numa", "numa", all, "", ""},
		{"mirror", "--layout mirror --port-speed host", "mirror", all, "", ""},
	}
}

// extrasVariable names the environment variable that adds a node for the guest of
// extras: with an IOMMU of its own it takes minutes.
const extrasVariable = "E2E_EXTRAS"

// extras returns a guest with what policy keys give beside places: a vIOMMU, and a clique for two
// displays, which the domain gives the vendor of a GPU.
func extras() inner {
	i := inner{
		name:   "extras",
		flags:  "--layout root --viommu intel --gpudirect-clique host --sysfs /lab/out/nvidia.txtar",
		layout: "root",
		devices: append(displays(), Device{
			"0000:21:00.0", "1b36:0010",
		}, Device{unbound, "1b36:0010"}),
		kernel: " intel_iommu=on vfio=1b36:0010",
	}

	for n, d := range displays() {
		vendor, device, _ := strings.Cut(d.IDs, ":")
		i.rest += fmt.Sprintf(`<qemu:device alias="ua-hostdevice-%d"><qemu:frontend>`+
			`<qemu:property name="x-pci-vendor-id" type="unsigned" value="%d"/>`+
			`<qemu:property name="x-pci-device-id" type="unsigned" value="%d"/></qemu:frontend>`+
			`</qemu:device>`,
			n, number(vendor), number(device))
	}

	// Somebody else's clique, so that the hook's has a number other than 0.
	i.rest += `<qemu:device alias="ua-absent"><qemu:frontend>` +
		`<qemu:property name="x-nv-gpudirect-clique" type="unsigned" value="0"/></qemu:frontend>` +
		`</qemu:device>`
	i.rest = `<qemu:override xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">` + i.rest +
		`</qemu:override>`
	return i
}

func number(hex string) uint64 {
	n, err := strconv.ParseUint(hex, 16, 16)
	if err != nil {
		panic(err)
	}
	return n
}

// domain returns what KubeVirt would make of a VM with these devices, as far as the node can run
// it: cells for both nodes, and no addresses. The source has no type, which KubeVirt writes and
// libvirt's schema does not allow.
func (i inner) domain() string {
	var hostdevs strings.Builder
	for n, d := range i.devices {
		fmt.Fprintf(&hostdevs, "%s<alias name=\"ua-hostdevice-%d\"></alias></hostdev>\n",
			d.hostdev(), n)
	}

	return `<domain type="kvm"><name>e2e</name><memory unit="MiB">512</memory><vcpu>2</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type><kernel>/lab/vmlinuz</kernel><initrd>/lab/initramfs</initrd>
<cmdline>console=ttyS0 quiet loglevel=1 panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on maxcpus=1` + i.kernel + `</cmdline></os>
<features><acpi></acpi><apic></apic></features>
<cpu mode="host-passthrough"><numa><cell id="0" cpus="0" memory="256" unit="MiB"/><cell id="1" cpus="1" memory="256" unit="MiB"/></numa></cpu>
<numatune><memory mode="strict" nodeset="0,1"/><memnode cellid="0" mode="strict" nodeset="0"/><memnode cellid="1" mode="strict" nodeset="1"/></numatune>
<on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
<devices><controller type="usb" model="none"/><memballoon model="none"/>
<serial type="file"><source path="/run/console"/></serial>
<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/run/snapshot"/><target dev="vda" bus="virtio"/><serial>snapshot</serial></disk>
<rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
` + hostdevs.String() + `</devices>` + i.rest + `</domain>
`
}

const vmiJSON = `{"metadata": {"name": "e2e", "namespace": "default"}, "spec": {"domain": {"devices": {}}}}
`

// fill writes what the node reads to the shared directory: its devices, the guests, and
// the files that they boot.
func fill(share, binary, kernelDir string, inner []inner) error {
	if err := os.Mkdir(filepath.Join(share, "out"), 0o755); err != nil {
		return err
	}

	if err := Share(share, displays()...); err != nil {
		return err
	}

	var guests strings.Builder
	texts := map[string]string{
		"displays": displays()[0].ID + " " + displays()[1].ID,
		"vmi.json": vmiJSON,
		"unbound":  unbound,
	}

	for _, i := range inner {
		fmt.Fprintln(&guests, i.name, i.flags)
		texts[i.name+".xml"] = i.domain()
	}

	texts["guests"] = guests.String()

	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(share, name), []byte(text), 0o644); err != nil {
			return err
		}
	}

	kernel, err := boot.KernelIn(kernelDir)
	if err != nil {
		return err
	}

	for name, file := range map[string]string{"vmlinuz": kernel, "hook-sidecar": binary} {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(share, name), data, 0o755); err != nil {
			return err
		}
	}

	initramfs := boot.GuestInitramfs(kernelDir)
	initramfs.Binary = binary
	initramfs.Modules = append(initramfs.Modules, "vfio-pci", "vfio_iommu_type1")
	return initramfs.Write(filepath.Join(share, "initramfs"))
}
