package domain

import (
	"cmp"
	"math"
	"slices"

	"hook-sidecar/pkg/domain/xmledit"
	"hook-sidecar/pkg/topology"
)

// coordinates are the numbers of a PCI address with their highest values
// (libvirt src/util/virpci.c, virPCIDeviceAddressIsValid).
type coordinates struct {
	domain, bus, slot, function uint64
	present                     bool // at least one of them is written
}

func (r *reader) coordinates(e *xmledit.Element, highestDomain uint64) (coordinates, error) {
	var c coordinates
	for _, part := range []struct {
		name string
		to   *uint64
		high uint64
	}{
		{"domain", &c.domain, highestDomain},
		{"bus", &c.bus, 0xff},
		{"slot", &c.slot, 0x1f},
		{"function", &c.function, 7},
	} {
		n, ok, err := r.attrNumber(e, part.name, 0, 0, part.high)
		if err != nil {
			return coordinates{}, err
		}
		*part.to = n
		c.present = c.present || ok
	}
	return c, nil
}

// guestAddress reads an <address> of the guest. It is nil where no number is
// written: libvirt then chooses one. The only PCI domain of a guest is 0
// (libvirt src/conf/domain_addr.c, virDomainPCIAddressValidate).
func (r *reader) guestAddress(e *xmledit.Element) (*GuestAddress, error) {
	c, err := r.coordinates(e, 0)
	if err != nil || !c.present {
		return nil, err
	}
	return &GuestAddress{
		Bus: int(c.bus), Slot: int(c.slot), Function: int(c.function),
		Multifunction: e.Value("multifunction") == "on",
	}, nil
}

// deviceAddress reads the address of a controller or a device. libvirt takes
// one that is all zero for none (src/conf/device_conf.c,
// virDeviceInfoPCIAddressIsWanted).
func (r *reader) deviceAddress(e *xmledit.Element) (*GuestAddress, error) {
	a, err := r.guestAddress(e)
	if err != nil || a == nil || (a.Bus == 0 && a.Slot == 0 && a.Function == 0) {
		return nil, err
	}
	return a, nil
}

func alias(e *xmledit.Element) string { return e.Child("alias").Value("name") }

// controllers reads the PCI controllers. One without an index gets the lowest
// that is free once all others are known (libvirt src/conf/domain_postparse.c,
// virDomainAssignControllerIndexes).
func (r *reader) controllers(root *xmledit.Element) error {
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
			without = append(without, len(r.domain.Controllers))
		}
		r.domain.Controllers = append(r.domain.Controllers, c)
		r.domain.doc.controllers = append(r.domain.doc.controllers, e)
	}
	for _, i := range without {
		free := slices.Index(taken[:], false)
		if free < 0 {
			return r.xml.Errorf(r.domain.doc.controllers[i].Open.Start, "no index is left for this <controller>")
		}
		taken[free] = true
		r.domain.Controllers[i].Index = free
	}
	for i, c := range r.domain.Controllers {
		if err := r.hole64(c, r.domain.doc.controllers[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) controller(e *xmledit.Element) (c Controller, hasIndex bool, err error) {
	index, hasIndex, err := r.attrNumber(e, "index", 10, 0, 255)
	if err != nil {
		return c, false, err
	}
	target := e.Child("target")
	c = Controller{
		Index: int(index), Model: Model(e.Value("model")),
		HotplugOff: target.Value("hotplug") == "off", Alias: alias(e),
	}
	if address := e.Child("address"); address.Value("type") == "pci" {
		if c.Address, err = r.deviceAddress(address); err != nil {
			return c, false, err
		}
	}
	if c.Model != ExpanderBus || target == nil {
		return c, hasIndex, nil
	}
	// busNr is read with base 0, node with base 10 (libvirt
	// src/conf/domain_conf.c, virDomainControllerDefParseXML).
	busNr, ok, err := r.attrNumber(target, "busNr", 0, 1, 254)
	if err != nil {
		return c, false, err
	}
	if ok {
		n := int(busNr)
		c.BusNr = &n
	}
	if node := target.Child("node"); node != nil {
		n, err := r.textNumber(node, math.MaxInt32)
		if err != nil {
			return c, false, err
		}
		cell := topology.CellID(n)
		c.Cell = &cell
	}
	return c, hasIndex, nil
}

func (r *reader) hole64(c Controller, e *xmledit.Element) error {
	hole := e.Child("pcihole64")
	if c.Index != 0 || hole == nil {
		return nil
	}
	size, err := r.scaled(hole)
	if err != nil {
		return err
	}
	r.domain.PCIHole64Off = size == 0
	return nil
}

// hostdev reads a <hostdev>. Placed is false for what placement leaves alone:
// other kinds, mediated devices that are not PCI (vfio-ap, vfio-ccw), and
// those without a source that says which device it is.
func (r *reader) hostdev(e *xmledit.Element) (h Hostdev, placed bool, err error) {
	mode := e.Attr("mode")
	if mode != nil && mode.Value != "subsystem" {
		return h, false, nil
	}
	id, ok, err := r.source(e)
	if err != nil || !ok {
		return h, false, err
	}
	h = Hostdev{
		ID: id, Alias: alias(e), HasMode: mode != nil,
		Display: e.Value("display") == "on", RamFB: e.Value("ramfb") == "on",
	}
	address := e.Child("address")
	// KubeVirt's address may lack its type; libvirt's never does.
	switch cmp.Or(address.Value("type"), "pci") {
	case "pci":
		h.Address, err = r.deviceAddress(address)
	case "unassigned":
		h.Unassigned = true
	}
	return h, err == nil, err
}

// source is the device that a <hostdev> passes through; ok is false where
// there is none, or none that placement knows.
func (r *reader) source(e *xmledit.Element) (id topology.DeviceID, ok bool, err error) {
	address := first(e, "source", "address")
	if address == nil {
		return id, false, nil
	}
	switch e.Value("type") {
	case "pci":
		c, err := r.coordinates(address, math.MaxUint32)
		if err != nil || !c.present {
			return id, false, err
		}
		return topology.PCIDevice(topology.Address{
			Domain: uint32(c.domain), Bus: uint8(c.bus), Device: uint8(c.slot), Function: uint8(c.function),
		}), true, nil
	case "mdev":
		uuid, err := topology.ParseUUID(address.Value("uuid"))
		if err != nil || !isVFIOPCI(e) {
			// libvirt refuses such a UUID itself, and names it.
			return id, false, nil
		}
		return topology.MediatedDevice(uuid), true, nil
	}
	return id, false, nil
}

// isVFIOPCI reports whether a mediated device is a PCI device. libvirt wants
// the model to be written, KubeVirt always writes it.
func isVFIOPCI(e *xmledit.Element) bool {
	return cmp.Or(e.Value("model"), "vfio-pci") == "vfio-pci"
}

// MainBusSlots are the slots of the main bus that an explicit address takes.
func (d *Domain) MainBusSlots() map[int]bool {
	used := map[int]bool{}
	use := func(a *GuestAddress) {
		if a != nil && a.Bus == 0 {
			used[a.Slot] = true
		}
	}
	for _, c := range d.Controllers {
		use(c.Address)
	}
	for _, h := range d.Hostdevs {
		use(h.Address)
	}
	for _, o := range d.Others {
		use(o.Address)
	}
	return used
}
