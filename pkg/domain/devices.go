package domain

import (
	"cmp"
	"math"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// devices reads the devices other than PCI controllers.
func (r *reader) devices(*xmledit.Element) error {
	for _, devices := range r.domain.doc.devices {
		for _, e := range devices.Children {
			isPCI := e.Local == "controller" && e.Value("type") == "pci"
			if e.Space != "" || isPCI {
				continue
			}

			if err := r.device(e); err != nil {
				return err
			}
		}
	}

	return nil
}

func (r *reader) device(e *xmledit.Element) error {
	d := r.domain
	if e.Local == "hostdev" {
		if name := alias(e); name != "" {
			d.HostdevAliases = append(d.HostdevAliases, name)
		}

		h, placed, err := r.hostdev(e)
		if err != nil {
			return err
		}

		if placed {
			d.Hostdevs = append(d.Hostdevs, h)
			return nil
		}
	}

	other, err := r.other(e)
	if e.Local == "hostdev" {
		other.Hostdevs = len(d.Hostdevs)
	}

	d.Others = append(d.Others, other)
	return err
}

func (r *reader) other(e *xmledit.Element) (d Device, err error) {
	model, target, address := e.Child("model"), e.Child("target"), e.Child("address")
	d = Device{
		Element: e.Local, Type: e.Value("type"),
		Model:   cmp.Or(e.Value("model"), model.Value("type")),
		Primary: model.Value("primary") == "yes", Mode: e.Value("mode"), Index: e.Value("index"),
		Bus: cmp.Or(e.Value("bus"), target.Value("bus")), TargetDev: target.Value("dev"),
		TargetType: target.Value("type"),
		DriverType: e.Child("driver").Value("type"), Alias: alias(e),
		AddressType: address.Value("type"), at: e,
	}

	if address != nil {
		n, _ := number(address.Value("controller"), 10)
		d.AddressController = new(int(min(n, math.MaxInt32)))
	}

	if addressType(address) == "pci" {
		d.Address, err = r.guestAddress(address)
	}

	return d, err
}

// addressType returns the type of an address. KubeVirt's may lack it, libvirt's never does.
func addressType(e *xmledit.Element) string { return cmp.Or(e.Value("type"), "pci") }

// controllers reads the PCI controllers. Those without an index get the lowest free ones (libvirt
// src/conf/domain_postparse.c, virDomainAssignControllerIndexes).
func (r *reader) controllers(root *xmledit.Element) error {
	d := r.domain
	var taken [256]bool
	var without []int
	for e := range all(root, "devices", "controller") {
		if e.Value("type") != "pci" {
			continue
		}

		c, hasIndex, err := r.controller(e)
		if err != nil {
			return err
		}

		if hasIndex {
			taken[c.Index] = true
		} else {
			without = append(without, len(d.Controllers))
			c.NoIndex = true
		}

		d.Controllers = append(d.Controllers, c)
	}

	// Only now all given indexes are known.
	for _, i := range without {
		free := slices.Index(taken[:], false)
		if free < 0 {
			return r.xml.Errorf(d.Controllers[i].at.Open().Start,
				"no index is left for this <controller>")
		}

		taken[free] = true
		d.Controllers[i].Index = free
	}

	for _, c := range d.Controllers {
		hole := c.at.Child("pcihole64")
		if c.Index != 0 || hole == nil {
			continue
		}

		size, err := r.scaled(hole)
		if err != nil {
			return err
		}

		d.PCIHole64 = &size
	}

	return nil
}

func (r *reader) controller(e *xmledit.Element) (c Controller, hasIndex bool, err error) {
	index, hasIndex, err := r.attrNumber(e, "index", 10, 0, 255)
	if err != nil {
		return c, false, err
	}

	if err := r.atMostOne(e, "address", "target"); err != nil {
		return c, false, err
	}

	target := e.Child("target")
	c = Controller{
		Index: int(index), Model: Model(e.Value("model")),
		HotplugOff: target.Value("hotplug") == "off", Alias: alias(e), at: e,
	}

	if address := e.Child("address"); addressType(address) == "pci" {
		c.AddressType = address.Value("type")
		if c.Address, err = r.guestAddress(address); err != nil {
			return c, false, err
		}
	}

	if c.Model != ExpanderBus {
		c.Chassis, err = r.chassis(c.Model, target)
		return c, hasIndex, err
	}

	// libvirt reads busNr with base 0, node with base 10 (src/conf/domain_conf.c,
	// virDomainControllerDefParseXML).
	busNr, ok, err := r.attrNumber(target, "busNr", 0, 1, 254)
	if err != nil {
		return c, false, err
	}

	if ok {
		c.BusNr = new(int(busNr))
	}

	if node := target.Child("node"); node != nil {
		n, err := r.textNumber(node, math.MaxInt32)
		if err != nil {
			return c, false, err
		}
		c.Cell = new(topology.CellID(n))
	}

	return c, hasIndex, nil
}

// chassis reads the chassis of a port (libvirt src/conf/domain_conf.c,
// virDomainControllerDefParseXML). Of another controller it is none of QEMU's.
func (r *reader) chassis(model Model, target *xmledit.Element) (*int, error) {
	if model != RootPort && model != DownstreamPort || target == nil {
		return nil, nil
	}

	n, ok, err := r.attrNumber(target, "chassis", 0, 0, 255)
	if err != nil || !ok {
		return nil, err
	}

	return new(int(n)), nil
}

// hostdev reads a <hostdev>; placed is false for other kinds, for mediated devices that are not
// PCI devices (vfio-ap, vfio-ccw), and without a source that names the device.
func (r *reader) hostdev(e *xmledit.Element) (h Hostdev, placed bool, err error) {
	mode := e.Attr("mode")
	if mode != nil && mode.Value != "subsystem" {
		return h, false, nil
	}

	id, ok, err := r.source(e)
	if err != nil || !ok {
		return h, false, err
	}

	// Only now: what is wrong with a device that is not placed is for libvirt to say.
	if err := cmp.Or(r.atMostOne(e, "source", "address", "alias"),
		r.atMostOne(e.Child("source"), "address")); err != nil {
		return h, false, err
	}

	h = Hostdev{
		ID: id, Alias: alias(e), HasMode: mode != nil, at: e,
		Display: e.Value("display") == "on", RamFB: e.Value("ramfb") == "on",
		Nodeset: e.Child("acpi").Value("nodeset"),
		IOMMUFD: cmp.Or(e.Child("driver").Value("iommufd"),
			r.xml.Root().Child("iommufd").Value("enabled")) == "yes",
	}

	address := e.Child("address")
	switch addressType(address) {
	case "pci":
		h.Address, err = r.guestAddress(address)
	case "unassigned":
		h.Unassigned = true
	}

	return h, err == nil, err
}

// guestAddress reads the <address> of a controller or a device. It is nil where all numbers are
// zero or missing: libvirt then chooses one (src/conf/device_conf.c,
// virDeviceInfoPCIAddressIsWanted). A guest has PCI domain 0 only (src/conf/domain_addr.c,
// virDomainPCIAddressValidate).
func (r *reader) guestAddress(e *xmledit.Element) (*GuestAddress, error) {
	a, _, err := r.address(e, 0)
	if err != nil || a == (topology.Address{}) {
		return nil, err
	}
	return &GuestAddress{
		Bus: int(a.Bus), Slot: int(a.Device), Function: int(a.Function),
		Multifunction: e.Value("multifunction") == "on",
	}, nil
}

// atMostOne returns an error for an element that has several children of a name: libvirt's parser
// takes the first, KubeVirt's types the last.
func (r *reader) atMostOne(e *xmledit.Element, names ...string) error {
	for _, name := range names {
		count := 0
		for child := range all(e, name) {
			if count++; count > 1 {
				return r.xml.Errorf(child.Open().Start, "<%s> has two <%s>", e.Name, name)
			}
		}
	}

	return nil
}

// source reads the device that a <hostdev> passes through; ok is false for none that is placed.
func (r *reader) source(e *xmledit.Element) (id topology.DeviceID, ok bool, err error) {
	address := first(e, "source", "address")
	switch e.Value("type") {
	case "pci":
		a, present, err := r.address(address, math.MaxUint32)
		return topology.PCIDevice(a), present, err
	case "mdev":
		// libvirt requires a model, KubeVirt always writes one. libvirt refuses an invalid UUID.
		uuid, err := topology.ParseUUID(address.Value("uuid"))
		if err != nil || cmp.Or(e.Value("model"), "vfio-pci") != "vfio-pci" {
			return id, false, nil
		}
		return topology.MediatedDevice(uuid), true, nil
	}

	return id, false, nil
}

// address reads the numbers of a PCI address, up to the highest that libvirt accepts
// (src/util/virpci.c, virPCIDeviceAddressIsValid); present is false where it has none.
func (r *reader) address(
	e *xmledit.Element, highestDomain uint64,
) (a topology.Address, present bool, err error) {
	var numbers [4]uint64
	for i, part := range [...]struct {
		name string
		high uint64
	}{{"domain", highestDomain}, {"bus", 0xff}, {"slot", 0x1f}, {"function", 7}} {
		n, ok, err := r.attrNumber(e, part.name, 0, 0, part.high)
		if err != nil {
			return a, false, err
		}
		numbers[i], present = n, present || ok
	}

	return topology.Address{
		Domain: uint32(numbers[0]), Bus: uint8(numbers[1]), Device: uint8(numbers[2]),
		Function: uint8(numbers[3]),
	}, present, nil
}
