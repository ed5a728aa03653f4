package fit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// OfferedDevice is a device that a node offers, by a ResourceSlice or by a device plugin. What is
// not published is empty.
type OfferedDevice struct {
	// in its ResourceSlice; of a device plugin its address
	Name string `json:"name"`
	// that publishes it, or the resource of its device plugin
	Driver  string            `json:"driver"`
	Address string            `json:"address"` // PCI address
	Root    topology.PCIeRoot `json:"root"`    // PCIe root, or several with commas
	NUMA    string            `json:"numa"`    // NUMA node, several with commas, or none
	// free, used, tainted, incomplete: its pool lacks slices; or next: the next VM gets it
	State string `json:"state"`
	// the claim or the VM that uses it, its taints, what its pool lacks, the request that would
	// get it, of a free one what claims have of it, or which device is the same function
	By string `json:"by"`

	pci       topology.DeviceID
	id        deviceID
	published *resourceapi.Device // nil of a device plugin
	uses      []use
	place     place

	isFunction bool // one claim has all of it, and no other device of the same address
}

// The states of a device.
const (
	free       = "free"
	used       = "used"
	tainted    = "tainted"
	incomplete = "incomplete"
	next       = "next"
)

// isShared reports whether several claims may have the device.
func (d OfferedDevice) isShared() bool {
	return d.published != nil && ptr.Deref(d.published.AllowMultipleAllocations, false)
}

// isHostdev reports whether a VM may get the device by passthrough, which no CPU and no memory is
// (kubernetes-sigs/dra-driver-cpu, dra-driver-memory).
func (d OfferedDevice) isHostdev() bool {
	return d.Driver != "dra.cpu" && d.Driver != "dra.memory"
}

// addTwin says of a device that another is the same function.
func (d *OfferedDevice) addTwin(twin OfferedDevice) {
	switch {
	case len(d.uses) == 0 && len(twin.uses) > 0:
		d.State, d.By = used, userOf(twin.uses[0].claim)
	case d.State == free && d.By == "":
		d.By = "the same function as " + twin.Name
	}
}

// shares says what claims have of a device that several may have.
func (d OfferedDevice) shares() string {
	t := newTaken()
	for _, u := range d.uses {
		t.add(u.result)
	}

	by := words.Counted(len(d.uses), "claim")
	for _, name := range slices.Sorted(maps.Keys(d.published.Capacity)) {
		all := d.published.Capacity[name].Value
		left := t.left(d.id, name, all)
		by += fmt.Sprintf(", %s of %s %s left", left.String(), all.String(), name)
	}

	return by
}

func userOf(c *resourceapi.ResourceClaim) string { return c.Namespace + "/" + c.Name }

// taintsOf lists the taints of a device that keep the scheduler from it and that nothing tolerates.
func taintsOf(d *resourceapi.Device, tolerations []resourceapi.DeviceToleration) string {
	var found []string
	for _, t := range d.Taints {
		isHard := t.Effect == resourceapi.DeviceTaintEffectNoSchedule ||
			t.Effect == resourceapi.DeviceTaintEffectNoExecute

		if isHard && !tolerates(tolerations, t) {
			value := ""
			if t.Value != "" {
				value = "=" + t.Value
			}
			found = append(found, fmt.Sprintf("%s%s:%s", t.Key, value, t.Effect))
		}
	}

	return strings.Join(found, ",")
}

// publishes reports whether devices have an attribute, and under which other name they have the
// same thing.
func publishes(devices []OfferedDevice, attribute string) (isPublished bool, other string) {
	for _, d := range devices {
		for name := range d.published.Attributes {
			qualified := qualify(string(name), d.Driver)
			if qualified == attribute {
				return true, ""
			}

			if meaning(qualified) != isOther && meaning(qualified) == meaning(attribute) {
				other = ", its driver publishes " + qualified + ": matchAttribute compares one name"
			}
		}
	}

	return false, other
}

// values returns the values of an attribute, none of a device that is not published.
func (d OfferedDevice) values(attribute string) (values []string) {
	if d.published == nil {
		return nil
	}

	for name, a := range d.published.Attributes {
		if qualify(string(name), d.Driver) != attribute {
			continue
		}

		switch {
		case a.StringValue != nil:
			values = append(values, *a.StringValue)
		case a.IntValue != nil:
			values = append(values, fmt.Sprint(*a.IntValue))
		case a.BoolValue != nil:
			values = append(values, fmt.Sprint(*a.BoolValue))
		case a.VersionValue != nil:
			values = append(values, *a.VersionValue)
		}

		values = append(values, a.StringValues...)
		values = append(values, a.VersionValues...)
		values = append(values, sprintAll(a.IntValues)...)
		values = append(values, sprintAll(a.BoolValues)...)
	}

	slices.Sort(values)
	return slices.Compact(values)
}

func sprintAll[T any](values []T) []string {
	return topology.Map(values, func(value T) string { return fmt.Sprint(value) })
}
