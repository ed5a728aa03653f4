package placement

import (
	"slices"

	"hook-sidecar/pkg/domain"
)

// after is the read model of a domain with changes applied: what a parse of the
// changed bytes must show.
func after(d *domain.Domain, changes domain.Changes) *domain.Domain {
	next := *d
	next.Hostdevs = slices.Clone(d.Hostdevs)
	for i := range next.Hostdevs {
		if address, changed := changes.Place[i]; changed {
			next.Hostdevs[i].Address = address
		}
	}
	for _, i := range changes.SetMode {
		next.Hostdevs[i].HasMode = true
	}
	next.Hostdevs = append(next.Hostdevs, changes.AddHostdevs...)
	next.Controllers = nil
	for i, c := range d.Controllers {
		c.HotplugOff = c.HotplugOff || slices.Contains(changes.HotplugOff, i)
		if !slices.Contains(changes.RemoveControllers, i) {
			next.Controllers = append(next.Controllers, c)
		}
	}
	next.Controllers = append(next.Controllers, changes.AddControllers...)
	return &next
}
