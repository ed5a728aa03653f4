package boot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// TestCommandLine boots guests to which qemu:commandline adds a device where the hook would put
// one of its own, one form per guest: QEMU starts, and the guest has the hook's devices where they
// are planned and the added one where its argument says.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	b := newPC(t)
	one, all := []string{"mirror"}, []string{"auto", "root", "mirror"}
	for i, c := range []struct {
		name    string
		layouts []string
		args    []string
		ports   string // controllers of the domain
		added   string // tree of the added device, "" where QEMU chooses
	}{
		{
			"slot", all, []string{
				"-device", "pcie-root-port,bus=pcie.0,addr=1c.0,multifunction=on,port=1,chassis=90," +
					"id=root.1",
			}, "", "pci0000:00/1c.0",
		},
		{"slot-no-bus", one, []string{"-device", "edu,addr=0x1c"}, "", "pci0000:00/1c.0"},
		{
			"slot-json", one, []string{
				"-device", `{"driver":"edu","bus":"pcie.0","addr":"1c.0"}`,
			}, "", "pci0000:00/1c.0",
		},
		{
			"slot-number", one, []string{
				"-device", `{"driver":"edu","bus":"pcie.0","addr":224}`,
			}, "", "pci0000:00/1c.0",
		},
		{"no-slot", one, []string{"-device", `{"driver":"edu","bus":"pcie.0"}`}, "", ""},
		{
			"chassis", all, []string{
				"-device", "pcie-root-port,bus=pcie.0,addr=0x10,chassis=5,id=root.1",
			}, "", "pci0000:00/10.0",
		},
		{
			"chassis-json", one, []string{
				"-device", `{"driver":"pcie-root-port","bus":"pcie.0","addr":"0x10","chassis":5,` +
					`"id":"root.1"}`,
			}, "", "pci0000:00/10.0",
		},
		{
			"bus-number", all, []string{
				"-device", "pxb-pcie,bus=pcie.0,addr=0x10,bus_nr=0xe0,id=px1",
				"-device", "pcie-root-port,bus=px1,addr=0,chassis=90,id=root.1",
				"-device", "edu,bus=root.1,addr=0",
			}, "", "pci0000:e0/00.0/00.0",
		},
		{
			"bus-number-json", one, []string{
				"-device", `{"driver":"pxb-pcie","bus":"pcie.0","addr":"0x10","bus_nr":224,"id":"px1"}`,
				"-device", `{"driver":"pcie-root-port","bus":"px1","addr":"0x0","chassis":90,` +
					`"id":"root.1"}`,
			}, "", "pci0000:e0/00.0",
		},
		{
			"chassis-of-the-domain", all, nil,
			`<controller type='pci' index='1' model='pcie-root-port'><target chassis='6'/>` +
				`</controller>`, "",
		},
	} {
		for _, layout := range expect.Sampled(i, c.layouts) {
			t.Run(c.name+"/"+layout, func(t *testing.T) {
				t.Parallel()
				m := eights(4).with(cardReader())
				m.arguments, m.controllers = c.args, c.ports
				flags := m.flags(t, layout)
				domain, plan := b.place(t, m, flags)
				guest := b.boot(t, domain, SeaBIOS, m.instead)
				b.checkGuest(t, guest, plan, domain, flags)
				if c.added != "" && !guest.has(c.added) {
					t.Errorf("the guest has no device at %s", c.added)
				}
			})
		}
	}
}

// has reports whether a guest has a device, or a bridge, at a place.
func (g *Guest) has(tree string) bool {
	return slices.ContainsFunc(g.Devices, func(d Device) bool { return d.tree() == tree })
}

// commandLine returns arguments of QEMU as libvirt's XML has them.
func commandLine(args []string) string {
	if len(args) == 0 {
		return ""
	}

	var text strings.Builder
	for _, arg := range args {
		fmt.Fprintf(&text, "<qemu:arg value='%s'/>", arg)
	}

	return "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>" +
		text.String() + "</qemu:commandline>"
}
