package placement

import (
	"fmt"
	"slices"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/libvirt"
	"hook-sidecar/pkg/placement/bus"
	"hook-sidecar/pkg/placement/request"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Input is everything that a plan depends on.
type Input struct {
	Domain    *domain.Domain
	Host      *topology.Host
	Variables []env.Variable
	VMI       *kubevirt.VMI // nil when there is none
	Policy    policy.Policy
	Warnings  []reasons.Finding // of reading the above

	// NoRoomForPorts is why the firmware has no room for the BARs of switch ports with a link; ""
	// where it has.
	NoRoomForPorts string
}

// RootComplexAnnotation makes KubeVirt put every device on the root bus
// (kubevirt.io/api/core/v1, PlacePCIDevicesOnRootComplex).
const RootComplexAnnotation = "kubevirt.io/placePCIDevicesOnRootComplex"

func (in Input) onRootComplex() bool {
	return in.VMI != nil && in.VMI.Annotations[RootComplexAnnotation] == "true"
}

// Candidates returns the devices that a plan may be about, for which the host has to be read. They
// come in the order of ids.
func Candidates(d *domain.Domain, variables []env.Variable) []topology.DeviceID {
	ids := make([]topology.DeviceID, 0, len(d.Hostdevs))
	for _, h := range d.Hostdevs {
		ids = append(ids, h.ID)
	}

	for _, v := range variables {
		ids = append(ids, v.IDs...)
	}

	slices.SortFunc(ids, topology.DeviceID.Compare)
	return slices.Compact(ids)
}

// PassthroughDevice is a device that the domain passes through, or one to add, with what the host
// shows of it.
type PassthroughDevice struct {
	ID       topology.DeviceID
	Alias    string // "" when the domain gives none
	Resource string // "" when not known
	Added    bool

	HostNode   topology.Affinity
	PCIeRoot   topology.PCIeRoot  // "" when not known
	HostPath   []topology.Address // bridges above it, root port first
	IOMMUGroup *int
	// the host's function that it is, or that its parent is; nil when not known
	Function *topology.Function

	current    *domain.GuestAddress // in the domain as it came
	unassigned bool                 // hidden from the guest on purpose
}

// inventory lists the devices of the domain and those to add, by id, and returns the
// latter as hostdevs, too.
func inventory(in Input) (
	devices []PassthroughDevice, added []domain.Hostdev, warnings []reasons.Finding,
) {
	requests := request.New(in.VMI, in.Variables)
	added, warnings = requests.Additions(in.Domain, in.Host, in.Policy)
	if !libvirt.TakesMore(in.Domain, len(added)) {
		warnings = append(warnings, bus.Violated("%s not added: libvirt would add a bridge in a "+
			"slot of the root bus, and move the other devices; use machine type q35",
			words.Counted(len(added), "hostdev")))
		added = nil
	}

	devices = make([]PassthroughDevice, 0, len(in.Domain.Hostdevs)+len(added))
	for i, h := range slices.Concat(in.Domain.Hostdevs, added) {
		d := hostDevice(in.Host, h.ID)
		d.Alias, d.Resource, d.Added = h.Alias, requests.ResourceOf(h), i >= len(in.Domain.Hostdevs)
		d.current, d.unassigned = h.Address, h.Unassigned
		devices = append(devices, d)
	}

	slices.SortFunc(devices, func(x, y PassthroughDevice) int { return x.ID.Compare(y.ID) })
	return devices, added, append(warnings, unknownAliases(in, devices)...)
}

// hostDevice returns a device as the host shows it.
func hostDevice(host *topology.Host, id topology.DeviceID) PassthroughDevice {
	d := PassthroughDevice{ID: id, HostNode: host.Affinity(id), Function: host.Function(id)}
	if f := d.Function; f != nil {
		d.PCIeRoot, d.HostPath, d.IOMMUGroup = f.Root, f.Bridges, f.IOMMUGroup
	}

	if uuid, isMDEV := id.MDEV(); isMDEV {
		d.IOMMUGroup = nil
		if m := host.MDEV(uuid); m != nil {
			d.IOMMUGroup = m.IOMMUGroup
		}
	}

	return d
}

// hostAddress returns the address of the device on the host, or of the parent of a mediated device:
// the zero address if it has none that is known.
func (d *PassthroughDevice) hostAddress() topology.Address {
	if d.Function != nil {
		return d.Function.Address
	}
	pci, _ := d.ID.PCI()
	return pci
}

// NeedsAtomics reports whether a device is a whole AMD GPU; a mediated device is a part of one.
func (d PassthroughDevice) NeedsAtomics() bool {
	return d.ID.Kind() == topology.KindPCI && d.Function.NeedsAtomics()
}

// isConventional reports whether libvirt takes a device for conventional PCI
// (src/util/virpci.c, virPCIDeviceInit). A mediated device never is.
func (d PassthroughDevice) isConventional() bool {
	return d.ID.Kind() == topology.KindPCI && d.Function != nil && d.Function.Conventional
}

// unknownAliases warns of aliases that are to be kept and that no hostdev has.
// Hostdevs that are not placed, such as USB ones, are kept anyway.
func unknownAliases(in Input, devices []PassthroughDevice) []reasons.Finding {
	var warnings []reasons.Finding
	for _, alias := range in.Policy.Keep {
		known := slices.Contains(in.Domain.HostdevAliases, alias) ||
			slices.ContainsFunc(devices, func(d PassthroughDevice) bool { return d.Alias == alias })
		if !known {
			warnings = append(warnings, reasons.NewFinding(reasons.CodeUnknownAlias, nil,
				fmt.Sprintf("no hostdev has the alias %q that is to be kept",
					words.Abridge(alias))))
		}
	}

	return warnings
}

// aliasesOf says by which aliases two hostdevs can be found; "" where neither has one.
func aliasesOf(first, second string) string {
	switch {
	case first == "" && second == "":
		return ""
	case first == "" || second == "":
		return fmt.Sprintf(", as %q and without an alias", first+second)
	}
	return fmt.Sprintf(", as %q and as %q", first, second)
}

// checkUnique refuses a domain that passes one device through twice, or that
// has two PCI controllers of one index: libvirt refuses both ("Hostdev already
// exists in the domain configuration", "Multiple 'pci' controllers with index").
func checkUnique(d *domain.Domain) error {
	aliases := make(map[topology.DeviceID]string, len(d.Hostdevs))
	for _, h := range d.Hostdevs {
		if other, twice := aliases[h.ID]; twice {
			return reasons.WithHint("remove one of the two; KubeVirt writes both where gpus and "+
				"hostDevices of the VMI name the same resource",
				fmt.Errorf("device %s appears twice in the domain%s", h.ID,
					aliasesOf(other, h.Alias)))
		}

		aliases[h.ID] = h.Alias
	}

	indexes := make(map[int]bool, len(d.Controllers))
	for _, c := range d.Controllers {
		if indexes[c.Index] {
			return reasons.WithHint("give one of the two another index",
				fmt.Errorf("the domain has two pci controllers with index %d", c.Index))
		}
		indexes[c.Index] = true
	}

	return nil
}
