package domain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// After returns the read model after changes: that which a parse of the changed bytes has to give.
func (d *Domain) After(c Changes) *Domain {
	next := *d.withFragments(c.Marked)
	next.Hostdevs = slices.Clone(d.Hostdevs)
	for i := range next.Hostdevs {
		h := &next.Hostdevs[i]
		h.HasMode = h.HasMode || slices.Contains(c.SetMode, h.ID)
		h.Address = h.addressAfter(c)
	}

	next.Hostdevs = append(next.Hostdevs, c.AddHostdevs...)
	next.Controllers = make([]Controller, 0, len(d.Controllers)+len(c.AddControllers))

	for _, controller := range d.Controllers {
		if !slices.Contains(c.RemoveControllers, controller.Index) {
			next.Controllers = append(next.Controllers, controller.after(c))
		}
	}

	next.Controllers = append(next.Controllers, c.AddControllers...)
	if len(c.Complete) > 0 { // else the devices are those of d
		next.Others = slices.Clone(d.Others)
		for i := range next.Others {
			next.Others[i].complete(c)
		}
	}

	if c.RenameSSIDSizes {
		next.Fragments = withoutSSIDSizes(next.Fragments)
	}

	return &next
}

// after returns the controller after changes.
func (c Controller) after(changes Changes) Controller {
	c.HotplugOff = c.HotplugOff || slices.Contains(changes.HotplugOff, c.Index)
	if chassis, isSet := changes.Chassis[c.Index]; isSet {
		c.Chassis = &chassis
	}

	more := changes.Complete[c.Entry()]
	c.Address = cmp.Or(c.Address, more.Address)
	c.BusNr = cmp.Or(c.BusNr, more.BusNr)

	return c
}

// addressAfter returns the address of the hostdev after changes. A place that is planned, or taken
// away, counts before the one that completes it.
func (h Hostdev) addressAfter(changes Changes) *GuestAddress {
	if to, isPlaced := changes.Place[h.ID]; isPlaced {
		return to
	}
	return cmp.Or(h.Address, changes.Complete[h.Entry()].Address)
}

// complete gives the device the address that changes have for it.
func (d *Device) complete(changes Changes) {
	if at := changes.Complete[d.Entry()].Address; d.Address == nil && at != nil {
		d.Address, d.AddressType = at, "pci"
	}
}

// withFragments returns the read model after changes of fragments: they are in the place of
// those that they replace, else at the end.
func (d *Domain) withFragments(changes map[Mark]Marked) *Domain {
	next := *d
	next.Fragments = slices.Clone(d.Fragments)
	for _, mark := range slices.Sorted(maps.Keys(changes)) {
		wanted := changes[mark].Fragments
		var after []Fragment
		for _, f := range next.Fragments {
			switch {
			case !changes[mark].isReplaced(f, mark):
				after = append(after, f)
				continue
			case len(wanted) > 0:
				after, wanted = append(after, wanted[0]), wanted[1:]
			}
		}

		next.Fragments = append(after, wanted...)
	}

	return &next
}

// Verify compares a domain, parsed from changed bytes, with the result of After. The error names
// the first difference.
func (d *Domain) Verify(after *Domain) error {
	if want, have := len(after.Hostdevs), len(d.Hostdevs); want != have {
		return fmt.Errorf("the result has %d hostdevs, the plan %d", have, want)
	}

	for i, want := range after.Hostdevs {
		have := d.Hostdevs[i]
		if have.ID != want.ID || !topology.Same(have.Address, want.Address) ||
			have.Alias != want.Alias || have.HasMode != want.HasMode {
			return fmt.Errorf("device %s is not in the result as planned", want.ID)
		}
	}

	if err := verifyOthers(after.Others, d.Others); err != nil {
		return err
	}

	if err := verifyFragments(d, after); err != nil {
		return err
	}

	return verifyControllers(after.Controllers, d.Controllers)
}

// verifyOthers compares all devices but vIOMMUs, which are fragments.
func verifyOthers(want, have []Device) error {
	isFragment := func(o Device) bool { return o.Element == "iommu" }
	want = slices.DeleteFunc(slices.Clone(want), isFragment)
	have = slices.DeleteFunc(slices.Clone(have), isFragment)
	if len(want) != len(have) {
		return fmt.Errorf("the result has %d other devices, the plan %d", len(have), len(want))
	}

	for i, w := range want {
		if h := have[i]; h.Element != w.Element || !topology.Same(h.Address, w.Address) {
			return fmt.Errorf("the address of a %s is not in the result as planned", w.Element)
		}
	}

	return nil
}

func verifyFragments(got, want *Domain) error {
	left := slices.Clone(got.Fragments)
	for _, f := range want.Fragments {
		i := slices.Index(left, f)
		if i < 0 {
			return fmt.Errorf("%s is not in the result as planned", nameOf(f))
		}
		left = slices.Delete(left, i, i+1)
	}

	switch {
	case len(left) > 0:
		return fmt.Errorf("%s is in the result, and not in the plan", nameOf(left[0]))
	case !topology.Same(got.IOAPIC, want.IOAPIC):
		return errors.New("the ioapic is not in the result as planned")
	}

	return nil
}

// nameOf names a fragment in an error, without its value.
func nameOf(f Fragment) string {
	return fmt.Sprintf("%T with mark %q", f, words.Abridge(string(f.Mark())))
}

func verifyControllers(want, have []Controller) error {
	if len(want) != len(have) {
		return fmt.Errorf("the result has %d pci controllers, the plan %d", len(have), len(want))
	}

	for i, w := range want {
		h := have[i]
		if w.Index != h.Index || w.Model != h.Model || w.HotplugOff != h.HotplugOff ||
			!topology.Same(w.Address, h.Address) ||
			!topology.Same(w.BusNr, h.BusNr) || !topology.Same(w.Cell, h.Cell) ||
			!topology.Same(w.Chassis, h.Chassis) {
			return fmt.Errorf("the controller with index %d is not in the result as planned",
				w.Index)
		}
	}

	return nil
}
