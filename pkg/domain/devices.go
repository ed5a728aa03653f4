package domain

import (
	"cmp"
	"math"

	"hook-sidecar/pkg/domain/xmledit"
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
			d.doc.hostdevs = append(d.doc.hostdevs, e)
			return nil
		}
	}
	other, err := r.other(e)
	d.Others = append(d.Others, other)
	return err
}

func (r *reader) other(e *xmledit.Element) (d Device, err error) {
	model, target, address := e.Child("model"), e.Child("target"), e.Child("address")
	d = Device{
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
	if cmp.Or(d.AddressType, "pci") == "pci" {
		d.Address, err = r.guestAddress(address)
	}
	return d, err
}
