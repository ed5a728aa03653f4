package topology

// LinkEnd is the function at the lower end of the device's link: a virtual function has
// the link of its physical function.
func (d *Device) LinkEnd() Address {
	if d.PhysFn != nil {
		return *d.PhysFn
	}
	return d.Address
}

// PortAbove is the bridge at the upper end of the device's link; nil in the root complex.
func (d *Device) PortAbove() *Address {
	if n := len(d.Bridges); n > 0 {
		return &d.Bridges[n-1]
	}
	return nil
}

// Hardware is the function at the lower end of a function's link, or the function itself
// where the host does not show that. It is nil for nil.
func (h *Host) Hardware(f *Device) *Device {
	if f == nil {
		return nil
	}
	if lower := h.Device(f.LinkEnd()); lower != nil {
		return lower
	}
	return f
}

// MaxLink is the fastest link that a function supports, nil where it is not known.
func (h *Host) MaxLink(f *Device) *Link {
	lower := h.Hardware(f)
	if lower == nil || lower.Details == nil {
		return nil
	}
	return lower.Details.MaxLink
}

// BestLink is the fastest link that a function and the port above it support; what one
// of them supports where the other is not known, and nil where neither is.
func (h *Host) BestLink(f *Device) *Link {
	own := h.MaxLink(f)
	if f == nil || f.PortAbove() == nil {
		return own
	}
	above := h.MaxLink(h.Device(*f.PortAbove()))
	switch {
	case own == nil:
		return above
	case above == nil:
		return own
	}
	return new(own.Least(*above))
}

// Least is the link between an end that supports l and one that supports other.
func (l Link) Least(other Link) Link {
	return Link{Speed: min(l.Speed, other.Speed), Width: min(l.Width, other.Width)}
}
