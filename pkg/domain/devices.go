package domain

import (
	"cmp"
	"math"

	"hook-sidecar/pkg/domain/xmledit"
)

// devices reads the devices other than PCI controllers.
func (r *reader) devices(root *xmledit.Element) error {
	for e := range all(root, "devices") {
		for _, child := range e.Children {
			isPCI := child.Local == "controller" && child.Value("type") == "pci"
			if child.Space != "" || isPCI {
				continue
			}
			if err := r.device(child); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) device(e *xmledit.Element) error {
	if e.Local == "hostdev" {
		if name := alias(e); name != "" {
			r.domain.HostdevAliases = append(r.domain.HostdevAliases, name)
		}
		h, placed, err := r.hostdev(e)
		if err != nil {
			return err
		}
		if placed {
			r.domain.Hostdevs = append(r.domain.Hostdevs, h)
			r.domain.doc.hostdevs = append(r.domain.doc.hostdevs, e)
			return nil
		}
	}
	d, err := r.other(e)
	if err != nil {
		return err
	}
	r.domain.Others = append(r.domain.Others, d)
	return nil
}

func (r *reader) other(e *xmledit.Element) (Device, error) {
	model, target, address := e.Child("model"), e.Child("target"), e.Child("address")
	d := Device{
		Element: e.Local, Type: e.Value("type"), Model: cmp.Or(e.Value("model"), model.Value("type")),
		Primary: model.Value("primary") == "yes", Mode: e.Value("mode"), Index: e.Value("index"),
		Bus: cmp.Or(e.Value("bus"), target.Value("bus")), TargetDev: target.Value("dev"), TargetType: target.Value("type"),
		DriverType: e.Child("driver").Value("type"), Alias: alias(e), AddressType: address.Value("type"),
	}
	if address != nil {
		n, _ := number(address.Value("controller"), 10)
		d.AddressController = new(int(min(n, math.MaxInt32)))
	}
	// KubeVirt's address may lack its type; libvirt's never does.
	if d.AddressType != "" && d.AddressType != "pci" {
		return d, nil
	}
	var err error
	d.Address, err = r.deviceAddress(address)
	return d, err
}
