package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/reasons"
)

// requests is what the VMI asks for and what the variables allocate for it.
type requests struct {
	lists     []requestList
	variables []env.Variable
	byAlias   map[string]string // resources
}

// requestList is one of the VMI's lists of devices, with the aliases that
// virt-launcher gives them (KubeVirt pkg/virt-launcher/virtwrap/device/hostdevice:
// gpu, generic, dra).
type requestList struct {
	requests []env.Request
	prefixes []string // the first is that of devices from a device plugin
	gpus     bool
}

// newRequests reads the VMI's lists in the order in which virt-launcher writes
// their hostdevs (KubeVirt pkg/virt-launcher/virtwrap/converter/converter.go).
func newRequests(vmi *env.VMI, variables []env.Variable) requests {
	r := requests{variables: variables, byAlias: map[string]string{}}
	if vmi == nil {
		return r
	}
	r.lists = []requestList{
		{requests: vmi.HostDevices, prefixes: []string{"ua-hostdevice-", "ua-dra-hostdevice-", "ua-usb-host-"}},
		{requests: vmi.GPUs, prefixes: []string{"ua-gpu-", "ua-dra-gpu-"}, gpus: true},
	}
	for _, list := range r.lists {
		for _, request := range list.requests {
			for _, alias := range list.aliases(request) {
				if _, taken := r.byAlias[alias]; !taken && request.Resource != "" {
					r.byAlias[alias] = request.Resource
				}
			}
		}
	}
	return r
}

// sriovAlias begins the alias of a device of an SR-IOV network.
const sriovAlias = "ua-sriov-"

// aliases are the aliases that a device of request r can have.
func (l requestList) aliases(r env.Request) []string {
	var aliases []string
	for _, prefix := range l.prefixes {
		aliases = append(aliases, prefix+r.Name)
	}
	return aliases
}

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
	if resource, known := r.byAlias[h.Alias]; known {
		return resource
	}
	for _, v := range r.variables {
		if resources := r.resourcesOf(v); len(resources) > 0 && slices.Contains(v.IDs, h.ID) {
			return resources[0]
		}
	}
	return ""
}

// resourcesOf are the resources of the VMI whose variable it is, each
// once. KubeVirt's rule makes one name of several: a.b/c and a_b/c.
func (r requests) resourcesOf(v env.Variable) []string {
	var resources []string
	for _, list := range r.lists {
		for _, request := range list.requests {
			if request.Resource != "" && v.IsFor(request.Resource) && !slices.Contains(resources, request.Resource) {
				resources = append(resources, request.Resource)
			}
		}
	}
	slices.Sort(resources)
	return resources
}

// collisions warns of variables of several resources of the VMI.
func (r requests) collisions() []reasons.Warning {
	var warnings []reasons.Warning
	for _, v := range r.variables {
		if resources := r.resourcesOf(v); len(resources) > 1 {
			warnings = append(warnings, reasons.NewWarning(reasons.CodeVariableCollision, nil,
				fmt.Sprintf("%s is the variable of several resources of the VMI: %s", v.Name, strings.Join(resources, " and "))))
		}
	}
	return warnings
}
