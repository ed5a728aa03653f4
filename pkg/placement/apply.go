package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// Apply is the changed domain: the bytes of the domain that was planned for, with
// Changes. It is nil for a plan that changes nothing. The result is read again
// and compared with the plan; an error is a fault of this program, not of the
// input.
func (p *Plan) Apply() ([]byte, error) {
	if p.Changes.IsZero() {
		return nil, nil
	}
	changed, err := p.input.Apply(p.Changes)
	if err != nil {
		return nil, fmt.Errorf("apply the plan: %w", err)
	}
	again, err := domain.Parse(changed)
	if err != nil {
		return nil, fmt.Errorf("parse the result: %w", err)
	}
	if err := p.verify(again); err != nil {
		return nil, fmt.Errorf("verify the result: %w", err)
	}
	return changed, nil
}

// verify compares a domain, read again from the changed bytes, with what the
// plan says.
func (p *Plan) verify(got *domain.Domain) error {
	if want, have := len(p.result.Hostdevs), len(got.Hostdevs); want != have {
		return fmt.Errorf("the result has %d hostdevs, the plan %d", have, want)
	}
	for i, want := range p.result.Hostdevs {
		have := got.Hostdevs[i]
		if have.ID != want.ID || !topology.Same(have.Address, want.Address) || have.Alias != want.Alias || have.HasMode != want.HasMode {
			return fmt.Errorf("device %s is not in the result as planned", want.ID)
		}
	}
	if want := p.Changes.SetFirmwareEntry; want != nil && !slices.Contains(got.FirmwareEntries, *want) {
		return fmt.Errorf("the fw_cfg entry %s is not in the result as planned", want.Name)
	}
	if len(p.Changes.SetOptions) > 0 && !slices.Equal(got.Options, p.result.Options) {
		return errors.New("QEMU's options are not in the result as planned")
	}
	for _, i := range p.Changes.RemoveFirmwareEntries {
		if removed := p.input.FirmwareEntries[i]; slices.Contains(got.FirmwareEntries, removed) {
			return fmt.Errorf("the fw_cfg entry %s is still in the result", removed.Name)
		}
	}
	for _, want := range p.Changes.AddCliques {
		if !slices.Contains(got.Cliques, want) {
			return fmt.Errorf("the clique of %s is not in the result as planned", want.Alias)
		}
	}
	if want := p.Changes.AddIOMMU; want != nil && !slices.Contains(got.IOMMUs, *want) {
		return fmt.Errorf("the iommu of model %s is not in the result as planned", want.Model)
	}
	if p.Changes.IOAPIC == domain.AddIOAPIC && got.IOAPIC != "qemu" {
		return errors.New("the ioapic is not in the result as planned")
	}
	return verifyControllers(p.result.Controllers, got.Controllers)
}

func verifyControllers(want, have []domain.Controller) error {
	byIndex := func(x, y domain.Controller) int { return cmp.Compare(x.Index, y.Index) }
	want, have = slices.Clone(want), slices.Clone(have)
	slices.SortFunc(want, byIndex)
	slices.SortFunc(have, byIndex)
	if len(want) != len(have) {
		return fmt.Errorf("the result has %d pci controllers, the plan %d", len(have), len(want))
	}
	for i, w := range want {
		h := have[i]
		if w.Index != h.Index || w.Model != h.Model || w.HotplugOff != h.HotplugOff || !topology.Same(w.Address, h.Address) ||
			!topology.Same(w.BusNr, h.BusNr) || !topology.Same(w.Cell, h.Cell) {
			return fmt.Errorf("the controller with index %d is not in the result as planned", w.Index)
		}
	}
	return nil
}
