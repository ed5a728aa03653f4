package domain

import (
	"fmt"
	"slices"
	"strconv"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/words"
)

// PortOverride is a device of qemu:override that gives a PCI controller another driver or link:
// existing, or to be added by Apply. A field is "" where it leaves the property as it is.
type PortOverride struct {
	Alias  string // of the controller, see Controller.QEMUAlias
	Driver string // "cxl-upstream"
	Speed  string // x-speed as QEMU spells it: "32"
	Width  string // x-width as QEMU spells it: "16"
	// Own is true for one that Apply has added, recognised by its redundant remove of x-speed:
	// libvirt keeps it, and it has no effect.
	Own bool
}

// The properties of a PortOverride (QEMU hw/pci-bridge/gen_pcie_root_port.c, cxl_upstream.c and
// cxl_downstream.c; driver is a key of -device).
const (
	driverProperty = "driver"
	speedProperty  = "x-speed"
	widthProperty  = "x-width"
)

// PortOverrideMark is the mark of overrides that Apply may add, replace and remove.
const PortOverrideMark Mark = speedProperty

// Mark returns PortOverrideMark for the hook's own.
func (o PortOverride) Mark() Mark {
	if o.Own {
		return PortOverrideMark
	}
	return ""
}

// PortOverrides returns the overrides of controllers, in document order.
func (d *Domain) PortOverrides() []PortOverride { return fragmentsOf[PortOverride](d.Fragments) }

// QEMUAlias returns the alias that libvirt gives a PCI controller: the user's, else one by its
// index (libvirt src/qemu/qemu_alias.c, qemuAssignDeviceControllerAlias).
func (c Controller) QEMUAlias() string {
	if IsUserAlias(c.Alias) {
		return c.Alias
	}
	return "pci." + strconv.Itoa(c.Index)
}

var portKind = kind{
	read: readPortOverrides, place: placeOverrides[PortOverride], check: checkPortOverrides,
}

func readPortOverrides(r *reader, root *xmledit.Element) {
	for device := range all(root, "qemu:override", "qemu:device") {
		if override, isOne := portOverride(device); isOne {
			r.fragment(override, device)
		}
	}
}

// portOverride reads a device of qemu:override. libvirt takes the properties in their order
// (src/qemu/qemu_command.c, qemuBuildDeviceCommandlineHandleOverrides).
func portOverride(device *xmledit.Element) (override PortOverride, isOne bool) {
	override.Alias = device.Value("alias")
	fields := map[string]*string{
		driverProperty: &override.Driver, speedProperty: &override.Speed,
		widthProperty: &override.Width,
	}

	properties := slices.Collect(all(device, "qemu:frontend", "qemu:property"))
	isOnlyThese := true
	for _, p := range properties {
		field := fields[p.Value("name")]
		if field == nil {
			isOnlyThese = false
			continue
		}

		isOne = true
		*field = p.Value("value")
		if p.Value("type") == "remove" {
			*field = ""
		}
	}

	// The hook writes these properties alone, a remove without effect before them. An override
	// with anything else is the user's, and is left to them.
	override.Own = isOne && isOnlyThese && len(device.Children) == 1 &&
		len(device.Children[0].Children) == len(properties) &&
		properties[0].Value("name") == speedProperty && properties[0].Value("type") == "remove" &&
		override.Speed != "" && override.Width != ""

	return override, isOne
}

// replace adds the override after all others.
func (o PortOverride) replace(e *editor, at []*xmledit.Element) { e.replaceOverride(o, at) }

// printOverride prints the override.
func (o PortOverride) printOverride(prefix string) string {
	properties := []property{{speedProperty, "remove", ""}}
	if o.Driver != "" {
		properties = append(properties, property{driverProperty, "string", o.Driver})
	}

	properties = append(properties, property{
		speedProperty, "string", o.Speed,
	}, property{widthProperty, "string", o.Width})

	return overridden(prefix, o.Alias, properties...)
}

// overriddenModels maps the driver of the hook's overrides to the model of the controllers that
// they are for.
var overriddenModels = map[string]Model{
	"": RootPort, "cxl-upstream": UpstreamPort, "cxl-downstream": DownstreamPort,
}

// checkPortOverrides returns an error where one of the hook's overrides does not name a
// controller of the right model: libvirt ignores an alias that no device has, and QEMU takes any
// driver in any place.
func checkPortOverrides(d *Domain) error {
	models := map[string]Model{}
	for _, c := range d.Controllers {
		models[c.QEMUAlias()] = c.Model
	}

	for _, o := range d.PortOverrides() {
		if want := overriddenModels[o.Driver]; o.Own && models[o.Alias] != want {
			return fmt.Errorf(
				"the override for %s is for a controller of model %s, which it is not",
				words.Abridge(o.Alias), want)
		}
	}

	return nil
}
