// Package policy has the keys of a policy and their values, and resolves flags and annotations
// into one policy. A new key is a constant, a field of Policy, an entry of Settings and its use;
// flags, completion, annotations and warnings follow from the entry.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Key is the name of a setting, as a flag and as an annotation.
type Key string

// The keys.
const (
	KeyLayout       Key = "layout"
	KeyStrict       Key = "strict"
	KeyAdd          Key = "add"
	KeyCompanions   Key = "companions"
	KeyHotplugPorts Key = "hotplug-ports"
	KeyDryRun       Key = "dry-run"
	KeyNCCLTopology Key = "nccl-topology"
	KeyPortSpeed    Key = "port-speed"
	KeyMMIOWindow   Key = "mmio-window"
	KeyVIOMMU       Key = "viommu"
	KeyClique       Key = "gpudirect-clique"
)

// Layout is the shape of the guest's tree.
type Layout string

// The values that placement and others distinguish.
const (
	LayoutAuto   Layout = "auto"   // the one of the others from which NCCL gets most
	LayoutKeep   Layout = "keep"   // changes no address
	LayoutNUMA   Layout = "numa"   // one expander bus per guest cell
	LayoutRoot   Layout = "root"   // one expander bus per host PCIe root
	LayoutSwitch Layout = "switch" // as mirror, with one switch in place of cascaded ones
	LayoutMirror Layout = "mirror" // as root, with the host's switches

	AddRequested = "requested" // those that the VMI names
	AddAll       = "all"       // every other primary device too
	AddNone      = "none"

	CompanionsKeep = "keep" // only functions of the domain
	CompanionsAdd  = "add"  // VFIO-bound functions of the same IOMMU group too

	NCCLTopologyNone      = "none"      // not from the hook
	NCCLTopologyFWCfg     = "fwcfg"     // as an entry of QEMU's fw_cfg device
	NCCLTopologyCloudInit = "cloudinit" // the same, and cloud-init copies it to NCCL's place

	VIOMMUNone   = "none"   // none from the hook
	VIOMMUIntel  = "intel"  // VT-d, on x86
	VIOMMUSMMUv3 = "smmuv3" // on aarch64
)

// TreeLayouts returns the layouts that build a tree, from the simplest, which is also the
// coarsest.
func TreeLayouts() []Layout { return slices.Clone(treeLayouts) }

var treeLayouts = []Layout{LayoutNUMA, LayoutRoot, LayoutSwitch, LayoutMirror}

// IsPerCell reports whether a layout has one expander bus per guest cell, so that a device without
// a cell has no place in it.
func (l Layout) IsPerCell() bool { return l == LayoutNUMA }

// HasSwitches reports whether a layout has the host's switches.
func (l Layout) HasSwitches() bool { return l == LayoutSwitch || l == LayoutMirror }

// HotplugAuto leaves the number of free root ports to KubeVirt's formula.
const (
	HotplugAuto = -1
	hotplugAuto = "auto"
)

// Origin is where the value of a setting comes from.
type Origin string

// The origins of a setting.
const (
	OriginDefault    Origin = "default"
	OriginFlag       Origin = "flag"
	OriginAnnotation Origin = "annotation"
)

// Policy has the value of each key, resolved.
type Policy struct {
	Layout       Layout
	Strict       bool
	Add          string
	Companions   string
	HotplugPorts int // free root ports to reserve, or HotplugAuto
	DryRun       bool
	NCCLTopology string
	PortSpeed    string
	MMIOWindow   string
	VIOMMU       string
	Clique       string

	Keep    []string       // aliases of devices that are not moved
	Origins map[Key]Origin // where each value comes from

	// Named has the keys that the VM's owner gives: in an annotation, or as a flag of a command. The
	// hook's own flags are the administrator's, for all VMs.
	Named map[Key]bool
}

// AsksForSwitches reports whether the VM's owner asks for a layout with switches by name, and so
// for a switch above GPUs that lose something under one.
func (p Policy) AsksForSwitches() bool { return p.Named[KeyLayout] && p.Layout.HasSwitches() }

// AsIs returns the policy of a domain in which nothing is moved, added or refused.
func (p Policy) AsIs() Policy {
	p.Strict, p.Add, p.Companions = false, AddNone, CompanionsKeep
	p.NCCLTopology = NCCLTopologyNone
	p.Layout = LayoutKeep
	return p.chosen(KeyStrict, KeyAdd, KeyCompanions, KeyNCCLTopology, KeyLayout)
}

// WithLayout returns the policy with another layout, as if the flag of a command named it.
func (p Policy) WithLayout(layout Layout) Policy {
	p.Layout, p.Named = layout, maps.Clone(p.Named)
	p.Named[KeyLayout] = true
	return p.chosen(KeyLayout)
}

// chosen returns the policy with keys whose values a flag gives.
func (p Policy) chosen(keys ...Key) Policy {
	p.Origins = maps.Clone(p.Origins)
	for _, key := range keys {
		p.Origins[key] = OriginFlag
	}
	return p
}

// Setting describes a key.
type Setting struct {
	Key        Key
	Default    string
	WithoutVMI string   // the default where there is no VMI; "" is Default
	Values     []string // the words that it takes; hotplug-ports takes a number too
	Meaning    string   // one line, for --help

	// field returns a pointer into a policy: *string for one of Values, *bool, or *int for a
	// number or auto.
	field func(*Policy) any
}

// settings is the table of the keys, in the order of the documentation.
var settings = []Setting{
	{
		Key: KeyLayout, Default: "auto",
		Values:  []string{"auto", "keep", "numa", "root", "switch", "mirror"},
		Meaning: "shape of the guest's PCIe tree: auto, keep, numa, root, switch or mirror",
		field:   func(p *Policy) any { return (*string)(&p.Layout) },
	},
	{
		Key: KeyStrict, Default: "false", Values: []string{"true", "false"},
		Meaning: "fail if a device cannot be placed, instead of leaving it where it is",
		field:   func(p *Policy) any { return &p.Strict },
	},
	{
		Key: KeyAdd, Default: "requested", WithoutVMI: "all",
		Values:  []string{"requested", "all", "none"},
		Meaning: "devices in environment variables to add: requested (by the VMI), all or none",
		field:   func(p *Policy) any { return &p.Add },
	},
	{
		Key: KeyCompanions, Default: "keep", Values: []string{"keep", "add"},
		Meaning: "functions of a device that the domain lacks: keep (leave out) or add",
		field:   func(p *Policy) any { return &p.Companions },
	},
	{
		Key: KeyHotplugPorts, Default: hotplugAuto, Values: []string{hotplugAuto},
		Meaning: "root ports to reserve for hotplug: auto (as many as KubeVirt) or a number",
		field:   func(p *Policy) any { return &p.HotplugPorts },
	},
	{
		Key: KeyDryRun, Default: "false", Values: []string{"true", "false"},
		Meaning: "plan and report, but return the domain unchanged",
		field:   func(p *Policy) any { return &p.DryRun },
	},
	{
		Key: KeyNCCLTopology, Default: "none", Values: []string{"none", "fwcfg", "cloudinit"},
		Meaning: "topology file for NCCL in the guest: none, fwcfg (in QEMU's fw_cfg) or " +
			"cloudinit (and cloud-init fetches it)",
		field: func(p *Policy) any { return &p.NCCLTopology },
	},
	{
		Key: KeyPortSpeed, Default: "default", Values: []string{"default", "host"},
		Meaning: "links that the guest's root and switch ports advertise: default (QEMU's) or host",
		field:   func(p *Policy) any { return &p.PortSpeed },
	},
	{
		Key: KeyMMIOWindow, Default: "default", Values: []string{"default", "auto"},
		Meaning: "the guest's window for 64-bit BARs: default (the firmware's) or auto (as " +
			"large as they need)",
		field: func(p *Policy) any { return &p.MMIOWindow },
	},
	{
		Key: KeyVIOMMU, Default: "none", Values: []string{"none", "intel", "smmuv3"},
		Meaning: "IOMMU for the guest: none, intel (x86) or smmuv3 (aarch64)",
		field:   func(p *Policy) any { return &p.VIOMMU },
	},
	{
		Key: KeyClique, Default: "none", Values: []string{"none", "host"},
		Meaning: "GPUs that NVIDIA's driver may let talk to each other: none, or host (under " +
			"one switch of the host)",
		field: func(p *Policy) any { return &p.Clique },
	},
}

// Settings returns all settings, in the order of the documentation.
func Settings() []Setting { return slices.Clone(settings) }

// Keys returns all keys, in the order of the documentation.
func Keys() []Key {
	return topology.Map(settings, func(s Setting) Key { return s.Key })
}

// ParseKey reads the name of a key.
func ParseKey(name string) (Key, error) {
	if !slices.Contains(Keys(), Key(name)) {
		return "", fmt.Errorf("invalid policy key %q: %s", words.Abridge(name), mustBeKey(name))
	}
	return Key(name), nil
}

// mustBeKey ends a message about an unknown key with all keys, and the one with nearly its name.
func mustBeKey(name string) string {
	names := topology.Map(Keys(), func(key Key) string { return string(key) })
	return "must be one of " +
		strings.Join(names, ", ") + words.DidYouMean(name, names, "; ", "")
}

// IsBool reports whether a setting is true or false.
func (s Setting) IsBool() bool {
	_, ok := s.field(new(Policy)).(*bool)
	return ok
}

// Allowed lists the values of a setting.
func (s Setting) Allowed() string {
	switch s.field(new(Policy)).(type) {
	case *bool:
		return "true or false"
	case *int:
		return "auto or a number from 0 to 255"
	}

	return "one of " + strings.Join(s.Values, ", ")
}

// setting returns the entry of a key.
func setting(key Key) Setting {
	return settings[slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })]
}

// Value returns a setting in the form of a flag or an annotation.
func (p Policy) Value(key Key) string { return setting(key).value(&p) }

// IsDefault reports whether a key has its default, which for a key of pkg/keys is off.
func (p Policy) IsDefault(key Key) bool {
	s := setting(key)
	return s.value(&p) == s.Default
}

func (s Setting) value(p *Policy) string {
	switch field := s.field(p).(type) {
	case *bool:
		return strconv.FormatBool(*field)
	case *int:
		if *field == HotplugAuto {
			return hotplugAuto
		}
		return strconv.Itoa(*field)

	default:
		return *field.(*string)
	}
}

// set parses a value and stores it. An error calls the setting by name, and changes nothing.
func (s Setting) set(p *Policy, name, value string) error {
	switch field := s.field(p).(type) {
	case *string:
		if slices.Contains(s.Values, value) {
			*field = value
			return nil
		}

	case *bool:
		if b, err := strconv.ParseBool(value); err == nil {
			*field = b
			return nil
		}

	case *int:
		if value == hotplugAuto {
			*field = HotplugAuto
			return nil
		}
		if n, err := strconv.ParseUint(value, 10, 8); err == nil {
			*field = int(n)
			return nil
		}
	}

	return fmt.Errorf("invalid %s %q: must be %s%s", name, words.Abridge(value), s.Allowed(),
		words.DidYouMean(value, s.Values, "; ", ""))
}
