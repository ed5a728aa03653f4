package readback

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/oracle"
	"hook-sidecar/test/tree"
)

// place is a small hook: every PCI hostdev gets a root port of its own under one
// expander bus, whose index is the highest plus one. It does nothing where an
// expander bus exists.
func place(domain []byte) ([]byte, error) {
	return edit(domain, func(devices *tree.Node) {
		next := 1
		for _, c := range controllers(devices, "pci") {
			if c.Attr("model") == "pcie-expander-bus" {
				return
			}
			next = max(next, tree.Number(c.Attr("index"))+1)
		}
		pxb := devices.Add("controller", "type", "pci", "index", fmt.Sprint(next), "model", "pcie-expander-bus")
		pxb.Add("target", "busNr", "200")
		addAddress(pxb, tree.Address{Slot: 0x1c})
		for slot, hostdev := range devices.All("hostdev") {
			if hostdev.Attr("type") != "pci" {
				continue
			}
			port := devices.Add("controller", "type", "pci", "index", fmt.Sprint(next+1+slot), "model", "pcie-root-port")
			addAddress(port, tree.Address{Bus: next, Slot: slot})
			port.Add("target", "hotplug", "off")
			hostdev.Remove(func(n *tree.Node) bool { return n.Name == "address" })
			addAddress(hostdev, tree.Address{Bus: next + 1 + slot})
		}
	})
}

// TestModelAgreesWithLibvirt: the model agrees with a real libvirt 9.0, as far as
// KubeVirt's types see it, on every call of every boot: with a hook that does
// nothing, and with one that places devices.
func TestModelAgreesWithLibvirt(t *testing.T) {
	libvirt := oracle.New(t)
	for _, r := range recordings() {
		for name, hook := range map[string]Hook{"identity": identity, "place": place} {
			for _, version := range []Version{V190, Main} {
				t.Run(fmt.Sprintf("%s/%s/%d", r.name, name, version), func(t *testing.T) {
					check := func(domain []byte) ([]byte, error) {
						real, err := libvirt.Readback(domain)
						if err != nil {
							return nil, err
						}
						model, err := Libvirt(domain)
						if err != nil {
							return nil, err
						}
						if diff := cmp.Diff(seen(t, version, real), seen(t, version, model)); diff != "" {
							t.Errorf("devices (-libvirt +model):\n%s", diff)
						}
						return real, nil
					}
					version.Sequence(t, sample(t, r.name+".xml"), sample(t, r.name+".vmi.json"), hook, check)
				})
			}
		}
	}
}

// TestModelAgreesWithLibvirtOnARM does the same on aarch64 virt, where the root bus
// has no chipset: sample 01 with the machine changed and with KubeVirt's arm64
// defaults, a virtio-gpu and virtio inputs.
func TestModelAgreesWithLibvirtOnARM(t *testing.T) {
	libvirt := oracle.New(t)
	arm := strings.NewReplacer(
		`arch="x86_64" machine="q35"`, `arch="aarch64" machine="virt"`,
		`<vmport state="off"></vmport>`, "",
		`<model type="vga" heads="1" vram="16384"></model>`, `<model type="virtio" heads="1"></model>`,
		`type="usb" index="0" model="none"`, `type="usb" index="0" model="qemu-xhci"`,
		`<rng `, `<input type="tablet" bus="virtio"></input><input type="keyboard" bus="virtio"></input><rng `,
		`host-model`, `host-passthrough`,
	).Replace(string(sample(t, "01-single-gpu.xml")))
	for name, hook := range map[string]Hook{"identity": identity, "place": place} {
		t.Run(name, func(t *testing.T) {
			domain, err := hook([]byte(arm))
			if err != nil {
				t.Fatal(err)
			}
			real, err := libvirt.Readback(domain)
			if err != nil {
				t.Fatal(err)
			}
			model, err := Libvirt(domain)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(seen(t, Main, real), seen(t, Main, model)); diff != "" {
				t.Errorf("devices (-libvirt +model):\n%s", diff)
			}
		})
	}
}

// seen is the devices of a readback as KubeVirt keeps them, one text each, sorted:
// the model does not have the order in which libvirt prints controllers that it
// added itself; at the next parse it sorts them by type and index. The MAC that
// libvirt generates for a placeholder is random.
func seen(t *testing.T, version Version, readback []byte) []string {
	t.Helper()
	spec, err := version.parse(readback)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, device := range spec.Find("devices").Nodes {
		if device.Name == "interface" {
			device.Remove(func(n *tree.Node) bool { return n.Name == "mac" || n.Name == "source" })
		}
		texts = append(texts, string(device.Bytes()))
	}
	slices.Sort(texts)
	return texts
}

// TestPlacedDevicesStayThroughTheBoot: with a hook that places devices the boot
// converges: the places of call 1 are those of the last readback.
func TestPlacedDevicesStayThroughTheBoot(t *testing.T) {
	for _, version := range []Version{V190, Main} {
		name := "02-8gpu-8nic-gate-off"
		_, answers := version.Sequence(t, sample(t, name+".xml"), sample(t, name+".vmi.json"), place, Libvirt)
		first, last := places(t, answers[0]), places(t, answers[len(answers)-1])
		if len(first) != 16 {
			t.Fatalf("%d hostdevs, want 16", len(first))
		}
		if diff := cmp.Diff(first, last); diff != "" {
			t.Errorf("version %d: hostdev addresses (-first answer +last):\n%s", version, diff)
		}
	}
}

// places maps each hostdev to its guest bus.
func places(t *testing.T, domain []byte) map[string]int {
	t.Helper()
	read, err := tree.Read(domain)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for id, h := range read.Hostdevs() {
		if h.At == nil {
			t.Errorf("hostdev without address: %s", h.Bytes())
			continue
		}
		found[id] = h.At.Bus
	}
	return found
}
