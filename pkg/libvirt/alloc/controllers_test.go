package alloc_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/libvirt/alloc"
	"hook-sidecar/test/cases"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/oracle"
)

// TestControllers compares with what a real libvirt does with the domain of
// each case, and with one that has all kinds of controller on the root bus.
func TestControllers(t *testing.T) {
	domains := map[string][]byte{"mixed": []byte(`<domain type='qemu'><name>mixed</name><memory>524288</memory>
<os><type arch='x86_64' machine='q35'>hvm</type></os><devices>
<controller type='pci' index='9' model='dmi-to-pci-bridge'/>
<controller type='pci' index='8' model='pcie-root-port'/>
<controller type='pci' index='7' model='pcie-expander-bus'/>
<controller type='pci' index='5' model='pcie-root-port'><address type='pci' bus='0' slot='3' function='2'/></controller>
<controller type='pci' index='4' model='pcie-root-port'/>
<controller type='pci' index='2' model='pcie-expander-bus'/>
<controller type='usb' index='0' model='ich9-uhci1'/>
<sound model='ich9'/><video><model type='vga'/></video><memballoon model='none'/>
</devices></domain>`)}

	for _, c := range cases.Load(t, "../../..") {
		if c.NoLibvirt == "" {
			domains[c.Name] = c.Request.Domain
		}
	}

	lib, compared := oracle.New(t), 0
	for name, xml := range domains {
		back, err := lib.Readback(xml)
		if err != nil {
			continue // libvirt refuses it
		}

		d, after := parse(t, xml), parse(t, back)
		devices := libvirt.Devices(d)
		holes := libvirt.Holes(d, devices)
		predicted := alloc.Controllers(
			libvirt.WithRootPorts(d, holes), devices, alloc.Libvirt{}, nil, 0)
		if !lib.IsByIndex() {
			predicted = alloc.Controllers(d, devices, alloc.Libvirt{}, holes, 0)
		}

		isOf := func(index int) func(domain.Controller) bool {
			return func(c domain.Controller) bool { return c.Index == index }
		}

		for _, c := range predicted {
			at := slices.IndexFunc(d.Controllers, isOf(c.Index))
			back := slices.IndexFunc(after.Controllers, isOf(c.Index))
			if c.Address == nil || at >= 0 && d.Controllers[at].Address != nil || back < 0 {
				continue // not predicted
			}

			compared++

			if got, want := *after.Controllers[back].Address, *c.Address; got.Bus != 0 ||
				got.Slot != want.Slot || got.Function != want.Function {
				t.Errorf("%s: libvirt puts controller %d at %d:%02x.%x, want %02x.%x", name,
					c.Index, got.Bus, got.Slot, got.Function, want.Slot, want.Function)
			}
		}
	}

	if compared < 100 {
		t.Errorf("only %d controllers are compared", compared)
	}
}

func parse(t *testing.T, xml []byte) *domain.Domain {
	t.Helper()
	d, err := domain.Parse(xml)
	expect.NoError(t, err)
	return d
}
