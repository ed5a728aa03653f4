// Package request finds the hostdevs that a domain lacks: devices that the VMI requests and
// environment variables allocate, which virt-launcher or a companion policy has not written
// (add.go), and the resource of each device.
package request

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// Requests are the devices that the VMI requests and that the variables allocate for it.
type Requests struct {
	lists     []list
	variables []env.Variable
	resources [][]string // of each variable; see resourcesOf
	byID      map[topology.DeviceID]string
}

// list is one of the VMI's lists of devices, with the aliases that
// virt-launcher gives them (KubeVirt pkg/virt-launcher/virtwrap/device/hostdevice:
// gpu, generic, dra).
type list struct {
	requests []kubevirt.Request
	// the first is that of devices from a device plugin; no alias begins with two of them
	prefixes []string
	gpus     bool
	byName   map[string]string // resources
}

// New reads the VMI's lists in the order in which virt-launcher writes
// their hostdevs (KubeVirt pkg/virt-launcher/virtwrap/converter/converter.go).
func New(vmi *kubevirt.VMI, variables []env.Variable) Requests {
	r := Requests{
		variables: variables,
		resources: make([][]string, len(variables)),
		byID:      map[topology.DeviceID]string{},
	}
	if vmi == nil {
		return r
	}

	r.lists = []list{
		{requests: vmi.HostDevices, prefixes: []string{
			"ua-hostdevice-", "ua-dra-hostdevice-", "ua-usb-host-",
		}},
		{requests: vmi.GPUs, prefixes: []string{"ua-gpu-", "ua-dra-gpu-"}, gpus: true},
	}

	all := map[string]bool{}
	for i, l := range r.lists {
		r.lists[i].byName = make(map[string]string, len(l.requests))
		for _, request := range slices.Backward(l.requests) { // the first of a name counts
			if request.Resource != "" {
				all[request.Resource] = true
				r.lists[i].byName[request.Name] = request.Resource
			}
		}
	}

	for i, v := range variables {
		r.resources[i] = resourcesOf(v, all)
		for _, id := range v.IDs {
			if _, taken := r.byID[id]; !taken && len(r.resources[i]) > 0 {
				r.byID[id] = r.resources[i][0]
			}
		}
	}

	return r
}

// SRIOVAlias begins the alias of a device of an SR-IOV network.
const SRIOVAlias = "ua-sriov-"

// isVirtLaunchers reports whether an alias begins as those that virt-launcher writes.
func (r Requests) isVirtLaunchers(alias string) bool {
	if strings.HasPrefix(alias, SRIOVAlias) {
		return true
	}
	return slices.ContainsFunc(r.lists, func(l list) bool {
		return slices.ContainsFunc(l.prefixes, func(prefix string) bool {
			return strings.HasPrefix(alias, prefix)
		})
	})
}

// ResourceOf returns the resource name of a device: by its alias in the VMI, else by the variable
// that lists it; "" where neither has it.
func (r Requests) ResourceOf(h domain.Hostdev) string {
	for _, l := range r.lists {
		for _, prefix := range l.prefixes {
			name, found := strings.CutPrefix(h.Alias, prefix)
			if resource, known := l.byName[name]; found && known {
				return resource
			}
		}
	}

	return r.byID[h.ID]
}

// resourcesOf returns the resources that map to this environment variable, sorted. KubeVirt's rule
// maps several to one name: a.b/c and a_b/c.
func resourcesOf(v env.Variable, resources map[string]bool) []string {
	var own []string
	for resource := range resources {
		if v.IsFor(resource) {
			own = append(own, resource)
		}
	}

	slices.Sort(own)
	return own
}

// collisions warns of variables of several resources of the VMI.
func (r Requests) collisions() []reasons.Finding {
	var warnings []reasons.Finding
	for i, v := range r.variables {
		if resources := r.resources[i]; len(resources) > 1 {
			warnings = append(warnings, reasons.NewFinding(reasons.CodeVariableCollision, nil,
				fmt.Sprintf("%s is the variable of several resources of the VMI: %s", v.Name,
					strings.Join(resources, " and "))))
		}
	}

	return warnings
}
