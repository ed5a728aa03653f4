package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/topology"
)

// A shape is the tree below expander buses as text, without any numbering: two
// trees have the same shape exactly when they group the same devices below the
// same cells, ports and switches.

// shapeOf is the shape of the tree that a layout wants.
func shapeOf(wanted []expander) string {
	shapes := make([]string, len(wanted))
	for i, e := range wanted {
		shapes[i] = cellText(e.cell) + shapeOfPorts(e.ports)
	}
	return sorted(shapes)
}

func shapeOfPorts(ports []branch) string {
	shapes := make([]string, len(ports))
	for i, p := range ports {
		if p.slot == nil {
			shapes[i] = "switch" + shapeOfPorts(p.ports)
			continue
		}
		var functions []string
		for _, f := range p.slot {
			functions = append(functions, functionText(f.device.ID, f.number))
		}
		shapes[i] = sorted(functions)
	}
	return sorted(shapes)
}

// standing is the shape of what stands in the domain below the expander buses
// that hold a movable device.
func (b *builder) standing() string {
	labels := b.labels()
	var shapes []string
	for _, e := range b.ours(labels) {
		shapes = append(shapes, cellText(e.Cell)+b.shapeBelow(e.Index, labels))
	}
	return sorted(shapes)
}

// ours are the expander buses that hold a movable device and that nothing else
// in the domain refers to, by index.
func (b *builder) ours(labels map[int][]string) []domain.Controller {
	return slices.DeleteFunc(b.tree.expanders(), func(e domain.Controller) bool {
		return b.tree.isReferenced(e.Index) || !b.holds(e.Index, labels, isMovable)
	})
}

// shapeBelow is the shape of the ports that are plugged into a bus.
func (b *builder) shapeBelow(bus int, labels map[int][]string) string {
	var shapes []string
	for _, port := range b.tree.below[bus] {
		shape := sorted(labels[port.Index])
		for _, upstream := range b.tree.below[port.Index] {
			shape = "switch" + b.shapeBelow(upstream.Index, labels)
		}
		shapes = append(shapes, shape)
	}
	return sorted(shapes)
}

// labels names what is on each bus: movable devices by id, all others alike.
func (b *builder) labels() map[int][]string {
	labels := map[int][]string{}
	for _, d := range b.devices {
		switch {
		case d.Address == nil:
		case d.movable:
			labels[d.Address.Bus] = append(labels[d.Address.Bus], functionText(d.ID, d.Address.Function))
		default:
			labels[d.Address.Bus] = append(labels[d.Address.Bus], foreign)
		}
	}
	for _, o := range b.Domain.Others {
		if o.Address != nil {
			labels[o.Address.Bus] = append(labels[o.Address.Bus], foreign)
		}
	}
	return labels
}

const foreign = "foreign"

func isForeign(label string) bool { return label == foreign }

func isMovable(label string) bool { return label != foreign }

// isAligned reports whether the domain is already as the layout wants it: the
// shape, and what libvirt accepts but QEMU or firmware break. Where the layout
// wants nothing and nothing stands, what others built is not ours to judge.
func (b *builder) isAligned(wanted []expander) bool {
	if b.standing() != shapeOf(wanted) {
		return false
	}
	return len(wanted) == 0 || len(b.fit(0, func() []breach { return b.breaches(b.Domain) })) == 0
}

// lostHotplugOff is the positions of ports that have to get hotplug='off' again
// in a domain that is aligned: KubeVirt 1.9.0 loses it between the calls of a
// boot (virtwrap/api/schema.go, ControllerTarget). Firmware reserves windows
// for each slot that can hotplug. Behind downstream ports it then hands over
// with no BAR assigned (measured with OVMF 2022.11), so they are closed whoever
// built them; the root ports of others are harmless and left alone.
func (b *builder) lostHotplugOff(wanted []expander) []int {
	if !b.hotplugOff() {
		return nil
	}
	labels, own := b.labels(), b.hasOwnSlots(wanted)
	var lost []int
	for i, c := range b.Domain.Controllers {
		top := b.tree.expander(c.Index)
		if top == nil || c.HotplugOff || b.tree.isReferenced(top.Index) || !b.holds(c.Index, labels, isMovable) {
			continue
		}
		if c.Model == domain.DownstreamPort || c.Model == domain.RootPort && own {
			lost = append(lost, i)
		}
	}
	return lost
}

// hasOwnSlots reports whether the expander buses that hold movable devices are
// in the slots that an earlier call of ours gave them, from 0x1c downwards.
// libvirt gives those without an address, such as KubeVirt's, the lowest.
func (b *builder) hasOwnSlots(wanted []expander) bool {
	expanders := b.ours(b.labels())
	slots, crowded := b.number(b.vacated(), wanted).slots(len(expanders))
	return len(crowded) == 0 && !slices.ContainsFunc(expanders, func(e domain.Controller) bool {
		return e.Address == nil || !slices.Contains(slots, e.Address.Slot)
	})
}

// hotplugOff says whether ports with a device get hotplug='off'. Where every
// hostdev comes from an SR-IOV network KubeVirt detaches them before a
// migration, so their ports have to stay hotpluggable.
func (b *builder) hotplugOff() bool {
	return slices.ContainsFunc(b.devices, func(d *device) bool {
		return !strings.HasPrefix(d.Alias, "ua-sriov-")
	})
}

func cellText(cell *topology.CellID) string {
	if cell == nil {
		return "cell none "
	}
	return fmt.Sprintf("cell %d ", *cell)
}

func functionText(id topology.DeviceID, function int) string {
	return fmt.Sprintf("%s as function %d", id, function)
}

func sorted(texts []string) string {
	return "[" + strings.Join(slices.Sorted(slices.Values(texts)), ", ") + "]"
}
