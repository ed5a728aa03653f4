package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// requests is what the VMI asks for and what the variables allocate for it.
type requests struct {
	lists     []requestList
	variables []env.Variable
	resources [][]string // of each variable; see resourcesOf
	byID      map[topology.DeviceID]string
}

// requestList is one of the VMI's lists of devices, with the aliases that
// virt-launcher gives them (KubeVirt pkg/virt-launcher/virtwrap/device/hostdevice:
// gpu, generic, dra).
type requestList struct {
	requests []env.Request
	prefixes []string // the first is that of devices from a device plugin; no alias begins with two of them
	gpus     bool
	byName   map[string]string // resources
}

// newRequests reads the VMI's lists in the order in which virt-launcher writes
// their hostdevs (KubeVirt pkg/virt-launcher/virtwrap/converter/converter.go).
func newRequests(vmi *env.VMI, variables []env.Variable) requests {
	r := requests{variables: variables, resources: make([][]string, len(variables)), byID: map[topology.DeviceID]string{}}
	if vmi == nil {
		return r
	}
	r.lists = []requestList{
		{requests: vmi.HostDevices, prefixes: []string{"ua-hostdevice-", "ua-dra-hostdevice-", "ua-usb-host-"}},
		{requests: vmi.GPUs, prefixes: []string{"ua-gpu-", "ua-dra-gpu-"}, gpus: true},
	}
	all := map[string]bool{}
	for i, list := range r.lists {
		byName := make(map[string]string, len(list.requests))
		for _, request := range list.requests {
			if request.Resource == "" {
				continue
			}
			all[request.Resource] = true
			if _, taken := byName[request.Name]; !taken {
				byName[request.Name] = request.Resource
			}
		}
		r.lists[i].byName = byName
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

// sriovAlias begins the alias of a device of an SR-IOV network.
const sriovAlias = "ua-sriov-"

// isVirtLaunchers reports whether an alias begins as virt-launcher's do.
func (r requests) isVirtLaunchers(alias string) bool {
	if strings.HasPrefix(alias, sriovAlias) {
		return true
	}
	return slices.ContainsFunc(r.lists, func(l requestList) bool {
		return slices.ContainsFunc(l.prefixes, func(prefix string) bool { return strings.HasPrefix(alias, prefix) })
	})
}

// resourceOf is the resource name of a device: by its alias in the VMI, else by
// the variable that lists it; "" where neither says it.
func (r requests) resourceOf(h domain.Hostdev) string {
	for _, list := range r.lists {
		for _, prefix := range list.prefixes {
			name, found := strings.CutPrefix(h.Alias, prefix)
			if resource, known := list.byName[name]; found && known {
				return resource
			}
		}
	}
	return r.byID[h.ID]
}

// resourcesOf are those of the resources whose variable it is, in order. KubeVirt's
// rule makes one name of several: a.b/c and a_b/c.
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
func (r requests) collisions() []reasons.Warning {
	var warnings []reasons.Warning
	for i, v := range r.variables {
		if resources := r.resources[i]; len(resources) > 1 {
			warnings = append(warnings, reasons.NewWarning(reasons.CodeVariableCollision, nil,
				fmt.Sprintf("%s is the variable of several resources of the VMI: %s", v.Name, strings.Join(resources, " and "))))
		}
	}
	return warnings
}
