package domain_test

import (
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/domain"
)

const (
	rootPort     = "<controller type='pci' index='2' model='pcie-root-port'/>"
	upstreamPort = "<controller type='pci' index='3' model='pcie-switch-upstream-port'/>"
	named        = "<controller type='pci' index='4' model='pcie-switch-downstream-port'>" +
		"<alias name='ua-x'/></controller>"

	boundPorts = "<domain xmlns:q='" + namespace + "'><devices>" + rootPort + upstreamPort + named +
		"</devices>"
)

// overrides puts devices into qemu:override, as the hook prints them.
func overrides(devices ...string) string {
	return "<q:override>" + strings.Join(devices, "") + "</q:override>"
}

func overridden(alias string, properties ...string) string {
	text := `<q:device alias="` + alias + `"><q:frontend>`
	for _, p := range properties {
		name, value, isSet := strings.Cut(p, "=")
		if isSet {
			text += `<q:property name="` + name + `" type="string" value="` + value +
				`"></q:property>`
		} else {
			text += `<q:property name="` + name + `" type="remove"></q:property>`
		}
	}

	return text + `</q:frontend></q:device>`
}

// flat removes the whitespace that Apply prints between elements.
func flat(text string) string { return strings.NewReplacer("\n", "", "\t", "").Replace(text) }

// TestSetPortOverrides: overrides of ports are added beside cliques and the user's, replaced
// together, and removed without a trace.
func TestSetPortOverrides(t *testing.T) {
	root := overridden("pci.2", "x-speed", "x-speed=32", "x-width=16")
	up := overridden("pci.3", "x-speed", "driver=cxl-upstream", "x-speed=16", "x-width=8")
	users := overridden("ua-x", "x-speed=8")
	clique := `<q:device alias="ua-gpu"><q:frontend>` +
		`<q:property name="x-nv-gpudirect-clique" type="remove"></q:property>` +
		`<q:property name="x-nv-gpudirect-clique" type="unsigned" value="1"></q:property>` +
		`</q:frontend></q:device>`
	wanted := []domain.Fragment{
		domain.PortOverride{Alias: "pci.2", Speed: "32", Width: "16", Own: true},
		domain.PortOverride{
			Alias: "pci.3", Driver: "cxl-upstream", Speed: "16", Width: "8", Own: true,
		},
	}

	for name, tt := range map[string]struct{ before, with, without string }{
		"none":       {"", overrides(root, up), ""},
		"the user's": {overrides(users), overrides(users, root, up), overrides(users)},
		"a clique":   {overrides(clique), overrides(clique, root, up), overrides(clique)},
		"the same":   {overrides(root, up), overrides(root, up), ""},
		"older ones": {overrides(users,
			overridden("pci.9", "x-speed", "x-speed=64", "x-width=16")), overrides(users, root,
			up), overrides(users)},
		"of several ways": {overrides(up) + overrides(users), overrides(users, root, up),
			overrides(users)},
	} {
		t.Run(name, func(t *testing.T) {
			set := func(to string, fragments ...domain.Fragment) string {
				d, changes := parse(t, to), with(domain.PortOverrideMark, fragments...)
				got := apply(t, d, changes)
				if err := parse(t, got).Verify(d.After(changes)); err != nil {
					t.Errorf("%v: %s", err, got)
				}

				return got
			}

			with := set(boundPorts+tt.before+"</domain>", wanted...)
			if want := boundPorts + tt.with + "</domain>"; flat(with) != want {
				t.Errorf("with overrides\n%s\nwant\n%s", with, want)
			}

			if again := set(with, wanted...); again != with {
				t.Errorf("set again\n%s\nwant\n%s", again, with)
			}

			if got, want := set(with), boundPorts+tt.without+"</domain>"; got != want {
				t.Errorf("without overrides\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestCheck: libvirt ignores an alias that no device has, and QEMU takes a switch's
// port anywhere.
func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		override domain.PortOverride
		isRight  bool
	}{
		"root port": {domain.PortOverride{Alias: "pci.2"}, true},
		"upstream port": {domain.PortOverride{
			Alias: "pci.3", Driver: "cxl-upstream",
		}, true},
		"the user's alias": {domain.PortOverride{
			Alias: "ua-x", Driver: "cxl-downstream",
		}, true},
		"no device":     {domain.PortOverride{Alias: "pci.7"}, false},
		"another model": {domain.PortOverride{Alias: "pci.3"}, false},
		"the wrong driver": {domain.PortOverride{
			Alias: "pci.3", Driver: "cxl-downstream",
		}, false},
		"beside a user's alias": {domain.PortOverride{
			Alias: "pci.4", Driver: "cxl-downstream",
		}, false},
	} {
		tt.override.Speed, tt.override.Width, tt.override.Own = "32", "16", true
		d, changes := parse(t, boundPorts+"</domain>"), with(domain.PortOverrideMark, tt.override)
		err := parse(t, apply(t, d, changes)).Check()
		if (err == nil) != tt.isRight {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReadPortOverrides: the hook's own begin with a remove, and name no controller for good.
func TestReadPortOverrides(t *testing.T) {
	for name, tt := range map[string]struct {
		device     string
		want       domain.PortOverride
		references []int
	}{
		"own": {overridden("pci.2", "x-speed", "x-speed=32", "x-width=16"), domain.PortOverride{
			Alias: "pci.2", Speed: "32", Width: "16", Own: true,
		}, nil},
		"the user's": {overridden("pci.2", "x-speed=32", "x-width=16"), domain.PortOverride{
			Alias: "pci.2", Speed: "32", Width: "16",
		}, []int{2}},
		"with another property": {overridden("pci.2", "x-speed", "x-speed=32", "x-width=16",
			"hotplug=off"), domain.PortOverride{
			Alias: "pci.2", Speed: "32", Width: "16",
		}, []int{2}},
		"removed in the end": {overridden("pci.2", "x-speed=32", "x-speed", "driver=d"),
			domain.PortOverride{
				Alias: "pci.2", Driver: "d",
			}, []int{2}},
		"of the user's alias": {overridden("ua-x", "driver=cxl-downstream"), domain.PortOverride{
			Alias: "ua-x", Driver: "cxl-downstream",
		}, []int{4}},
		"own with the user's alias": {overridden("ua-x", "x-speed", "driver=cxl-downstream",
			"x-speed=8", "x-width=4"), domain.PortOverride{
			Alias: "ua-x", Driver: "cxl-downstream", Speed: "8", Width: "4", Own: true,
		}, nil},
	} {
		d := parse(t, boundPorts+overrides(tt.device)+"</domain>")
		if got := d.PortOverrides(); !slices.Equal(got, []domain.PortOverride{tt.want}) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}

		if !slices.Equal(d.References, tt.references) {
			t.Errorf("%s: references %v, want %v", name, d.References, tt.references)
		}
	}
}
