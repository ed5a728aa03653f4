package libvirt_test

import (
	"testing"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/topology"
)

// TestPortLink: what Linux showed for these ports in guests of QEMU 10.0 and 11.1.
func TestPortLink(t *testing.T) {
	root := controller(2, domain.RootPort, nil)
	up, down := controller(3, domain.UpstreamPort, nil), controller(4, domain.DownstreamPort, nil)
	named := domain.Controller{Index: 5, Model: domain.DownstreamPort, Alias: "ua-port"}
	global := domain.Option{
		Name: domain.OptionGlobal, Value: "driver=pcie-root-port,property=x-speed,value=32",
	}

	set := func(alias, driver, speed, width string) domain.Fragment {
		return domain.PortOverride{Alias: alias, Driver: driver, Speed: speed, Width: width}
	}

	for _, tt := range []struct {
		name      string
		port      domain.Controller
		fragments []domain.Fragment
		want      topology.Link
	}{
		{"root port", root, nil, topology.Link{Speed: 16, Width: 32}},
		{"upstream port", up, nil, topology.Link{Speed: 2.5, Width: 1}},
		{"downstream port shows Unknown and 0", down, nil, topology.Link{}},
		{"an expander bus has none", controller(1, domain.ExpanderBus, nil), nil, topology.Link{}},
		{"option for all root ports", root, []domain.Fragment{
			global,
		}, topology.Link{Speed: 32, Width: 32}},
		{"which is not for switch ports", up, []domain.Fragment{
			global,
		}, topology.Link{Speed: 2.5, Width: 1}},
		{"an override counts more", root, []domain.Fragment{
			global, set("pci.2", "", "8", "4"),
		}, topology.Link{Speed: 8, Width: 4}},
		{"of another port", root, []domain.Fragment{
			set("pci.3", "", "8", "4"),
		}, topology.Link{Speed: 16, Width: 32}},
		{"driver alone: cxl-upstream's own", up, []domain.Fragment{
			set("pci.3", "cxl-upstream", "", ""),
		}, topology.Link{Speed: 32, Width: 16}},
		{"driver alone: cxl-downstream's own", down, []domain.Fragment{
			set("pci.4", "cxl-downstream", "", ""),
		}, topology.Link{Speed: 64, Width: 16}},
		{"driver and link", down, []domain.Fragment{
			set("pci.4", "cxl-downstream", "16", "8"),
		}, topology.Link{Speed: 16, Width: 8}},
		{"by the user's alias", named, []domain.Fragment{
			set("ua-port", "cxl-downstream", "2_5", "1"),
		}, topology.Link{Speed: 2.5, Width: 1}},
		{"libvirt gives no alias by index beside it", named, []domain.Fragment{
			set("pci.5", "cxl-downstream", "2_5", "1"),
		}, topology.Link{}},
		{"of several the last counts", root, []domain.Fragment{
			set("pci.2", "", "8", "4"), set("pci.2", "", "64", ""),
		}, topology.Link{Speed: 64, Width: 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &domain.Domain{Fragments: tt.fragments}
			if got := libvirt.PortLink(d, tt.port); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestLinkProperties: QEMU refuses every other value (qapi/common.json).
func TestLinkProperties(t *testing.T) {
	for link, want := range map[topology.Link][2]string{
		{Speed: 2.5, Width: 1}: {"2_5", "1"},
		{Speed: 32, Width: 16}: {"32", "16"},
		{Speed: 64, Width: 12}: {"64", "12"},
	} {
		if speed, width, isKnown := libvirt.LinkProperties(link); speed != want[0] ||
			width != want[1] || !isKnown {
			t.Errorf("%s: %q, %q, %v", link, speed, width, isKnown)
		}
	}

	for _, link := range []topology.Link{
		{}, {Speed: 128, Width: 16}, {Speed: 32, Width: 3}, {Speed: 32},
	} {
		if _, _, isKnown := libvirt.LinkProperties(link); isKnown {
			t.Errorf("%s has properties", link)
		}
	}
}

// TestHasSwitchPortLinks: qemu-kvm is 9.1 in RHEL 9.6 and 10.0, 10.0 in 10.1, and 10.1 in 9.8 and
// 10.2.
func TestHasSwitchPortLinks(t *testing.T) {
	for machine, want := range map[string]bool{
		"q35": true, "virt": true, // libvirt takes the newest
		"pc-q35-7.2": false, "pc-q35-9.2": false, "pc-q35-10.0": true, "pc-q35-11.1": true,
		"virt-9.2": false, "virt-10.0": true,
		"pc-q35-rhel8.6.0": false, "pc-q35-rhel9.4.0": false, "pc-q35-rhel9.6.0": false,
		"pc-q35-rhel9.8.0":  true,
		"pc-q35-rhel10.0.0": false, "pc-q35-rhel10.2.0": true, "pc-q35-rhel11.0.0": true,
		"virt-rhel9.6.0": false,
		"pc-q35-noble":   false, "pc-q35-10": false,
	} {
		if got := libvirt.HasSwitchPortLinks(machine); got != want {
			t.Errorf("%s: %v, want %v", machine, got, want)
		}
	}

	for machine, isOlder := range map[string]bool{
		"pc-q35-8.2": true, "pc-q35-9.0": false, "pc-q35-rhel9.4.0": true,
		"pc-q35-rhel9.6.0": false, "pc-q35-rhel10.0.0": false,
		"pc-q35-8.1+pve0": true, "pc-q35-9.2+pve1": false, "pc-q35-9": true,
	} {
		if got := libvirt.IsOlderThan(machine, "9.0"); got != isOlder {
			t.Errorf("%s older than 9.0: %v, want %v", machine, got, isOlder)
		}
	}
}
