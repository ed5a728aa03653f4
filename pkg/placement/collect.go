package placement

import (
	"fmt"
	"maps"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/topology"
)

// Candidates are the devices that a plan may be about: what the host has to be
// read for. They come in the order of ids.
func Candidates(d *domain.Domain, variables []env.Variable) []topology.DeviceID {
	ids := map[topology.DeviceID]bool{}
	for _, h := range d.Hostdevs {
		ids[h.ID] = true
	}
	for _, v := range variables {
		for _, id := range v.IDs {
			ids[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(ids), topology.DeviceID.Compare)
}

// collect lists the devices of the domain and those to add, with what the host
// says of each.
func (b *builder) collect() error {
	if err := unique(b.Domain); err != nil {
		return err
	}
	for i, h := range b.Domain.Hostdevs {
		b.devices = append(b.devices, b.device(h, i))
		if pci := h.ID.Kind() == topology.KindPCI; pci && !h.HasMode {
			// KubeVirt writes none, and its own plugin pipeline and libvirtxml
			// then fail (libvirtxml domain.go, DomainHostdev.UnmarshalXML).
			b.changes.SetMode = append(b.changes.SetMode, i)
		}
	}
	b.changes.AddHostdevs = b.additions()
	for _, h := range b.changes.AddHostdevs {
		added := b.device(h, -1)
		added.Added = true
		b.devices = append(b.devices, added)
	}
	slices.SortFunc(b.devices, func(x, y *device) int { return x.ID.Compare(y.ID) })
	b.warnOfUnknownAliases()
	return nil
}

// DomainError is a domain that libvirt would refuse.
type DomainError struct{ text, remedy string }

func (e *DomainError) Error() string { return e.text }

// Remedy is what a user can do about it.
func (e *DomainError) Remedy() string { return e.remedy }

// unique refuses a domain that passes one device through twice, or that has
// two PCI controllers of one index: libvirt refuses both ("Hostdev already
// exists in the domain configuration", "Multiple 'pci' controllers with index").
func unique(d *domain.Domain) error {
	aliases := map[topology.DeviceID]string{}
	for _, h := range d.Hostdevs {
		if other, twice := aliases[h.ID]; twice {
			return &DomainError{
				fmt.Sprintf("device %s is in the domain twice, as %q and as %q", h.ID, other, h.Alias),
				"take one of the two out; KubeVirt writes both where gpus and hostDevices of the VMI name the same resource",
			}
		}
		aliases[h.ID] = h.Alias
	}
	indexes := map[int]bool{}
	for _, c := range d.Controllers {
		if indexes[c.Index] {
			return &DomainError{fmt.Sprintf("the domain has two pci controllers with index %d", c.Index), "give one of the two another index"}
		}
		indexes[c.Index] = true
	}
	return nil
}

func (b *builder) device(h domain.Hostdev, position int) *device {
	d := &device{hostdev: position}
	d.ID, d.Alias, d.Address = h.ID, h.Alias, h.Address
	d.Resource = b.resourceOf(h)
	d.HostNode = b.Host.Affinity(h.ID)
	if f := b.Host.Function(h.ID); f != nil {
		d.Function = f
		d.PCIeRoot, d.HostPath, d.IOMMUGroup = f.Root, f.Bridges, f.IOMMUGroup
	}
	if uuid, ok := h.ID.MDEV(); ok {
		d.IOMMUGroup = nil
		if m := b.Host.MDEV(uuid); m != nil {
			d.IOMMUGroup = m.IOMMUGroup
		}
	}
	return d
}

// resourceOf is the resource name of a device: by its alias in the VMI, else by
// the variable that lists it.
func (b *builder) resourceOf(h domain.Hostdev) string {
	if b.VMI == nil {
		return ""
	}
	for _, list := range b.requestLists() {
		for _, r := range list.requests {
			if r.Resource != "" && slices.Contains(list.aliases(r), h.Alias) {
				return r.Resource
			}
		}
	}
	for _, v := range b.Variables {
		if slices.Contains(v.IDs, h.ID) {
			if resources := b.resourcesOf(v); len(resources) > 0 {
				return resources[0]
			}
		}
	}
	return ""
}

// resourcesOf are the resources of the VMI that a variable stands for, each
// once. KubeVirt's rule makes one name of several: a.b/c and a_b/c.
func (b *builder) resourcesOf(v env.Variable) []string {
	var resources []string
	for _, list := range b.requestLists() {
		for _, r := range list.requests {
			if r.Resource != "" && variableName(v.Kind, r.Resource) == v.Name && !slices.Contains(resources, r.Resource) {
				resources = append(resources, r.Resource)
			}
		}
	}
	slices.Sort(resources)
	return resources
}
