package placement

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// additions are the hostdevs that the policy adds from the variables.
func additions(in Input, asked requests) ([]domain.Hostdev, []reasons.Warning) {
	a := &adder{Input: in, asked: asked, taken: deviceSet{}, aliases: slices.Clone(in.Domain.HostdevAliases)}
	for _, h := range in.Domain.Hostdevs {
		a.taken[h.ID] = true
		switch {
		case h.Alias == "":
			a.unnamed = append(a.unnamed, h.ID)
		case !asked.isVirtLaunchers(h.Alias):
			a.otherNames = append(a.otherNames, h.ID)
		}
	}
	if in.Policy.Add != policy.AddNone {
		a.present = a.matchPresent()
		for _, list := range asked.lists {
			a.addRequested(list)
		}
	}
	if in.Policy.Add == policy.AddAll {
		a.addOthers()
	}
	if in.Policy.Companions == policy.CompanionsAdd {
		a.addCompanions()
	}
	return a.added, a.warnings
}

// adder gives out each device of the variables once.
type adder struct {
	Input
	asked   requests
	taken   deviceSet
	aliases []string            // in use
	unnamed []topology.DeviceID // hostdevs of the domain without an alias that are matched with no request yet
	// otherNames are hostdevs of the domain with an alias that virt-launcher does not
	// write, that are matched with no request yet.
	otherNames []topology.DeviceID

	present  map[*env.Request]bool // requests that have a hostdev in the domain
	added    []domain.Hostdev
	warnings []reasons.Warning
}

func (a *adder) add(h domain.Hostdev) {
	h.HasMode = true
	a.taken[h.ID] = true
	a.aliases = append(a.aliases, h.Alias)
	a.added = append(a.added, h)
}

func (a *adder) warn(code reasons.Code, format string, args ...any) {
	a.warnings = append(a.warnings, reasons.NewWarning(code, nil, fmt.Sprintf(format, args...)))
}

// addRequested adds what the VMI names and the domain lacks, in the order of
// virt-launcher: all PCI devices of a list, then all mediated ones.
func (a *adder) addRequested(list requestList) {
	var open []env.Request
	for i, r := range list.requests {
		switch {
		case r.Claim || a.present[&list.requests[i]]:
		case !domain.IsWritable(r.Name):
			a.warn(reasons.CodeBadDeviceName, "%s of the VMI has no hostdev, and its name %q cannot be written in XML",
				strings.TrimSuffix(strings.TrimPrefix(list.prefixes[0], "ua-"), "-"), topology.Abridge(r.Name))
		default:
			open = append(open, r)
		}
	}
	for _, kind := range []topology.Kind{topology.KindPCI, topology.KindMDEV} {
		var left []env.Request
		for _, r := range open {
			if id, found := a.firstFree(kind, r.Resource); found {
				a.add(a.hostdev(list, r, id))
			} else {
				left = append(left, r)
			}
		}
		open = left
	}
	for _, r := range open {
		why := "no variable has a device left for its resource " + r.Resource
		if r.Resource == "" {
			why = "it names no resource"
		}
		a.warn(reasons.CodeNotAllocated, "%s of the VMI has no hostdev, and %s", list.prefixes[0]+r.Name, why)
	}
}

// matchPresent finds the requests that have a hostdev in the domain: one with an
// alias of theirs, one with an alias that virt-launcher does not write and that the
// variable of their resource lists, or one without any, since libvirt drops an alias with other
// characters than its own. The latter match the requests of the resource whose
// variable lists them; those that no variable lists, one request each.
func (a *adder) matchPresent() map[*env.Request]bool {
	present := map[*env.Request]bool{}
	for _, match := range []func(requestList, env.Request) bool{a.hasAlias, a.hasOtherName, a.hasUnnamedOfResource, a.hasUnnamed} {
		for _, list := range a.asked.lists {
			for i := range list.requests {
				r := &list.requests[i]
				present[r] = present[r] || match(list, *r)
			}
		}
	}
	return present
}

func (a *adder) hasAlias(list requestList, r env.Request) bool {
	return slices.ContainsFunc(list.aliases(r), func(alias string) bool { return slices.Contains(a.aliases, alias) })
}

func (a *adder) hasOtherName(_ requestList, r env.Request) bool {
	return take(&a.otherNames, a.isOf(r))
}

func (a *adder) hasUnnamedOfResource(_ requestList, r env.Request) bool {
	return losesAlias(r) && take(&a.unnamed, a.isOf(r))
}

func (a *adder) hasUnnamed(_ requestList, r env.Request) bool {
	return losesAlias(r) && take(&a.unnamed, func(id topology.DeviceID) bool {
		return !slices.ContainsFunc(a.Variables, func(v env.Variable) bool { return slices.Contains(v.IDs, id) })
	})
}

// isOf reports of a device whether a variable of the request's resource lists it.
func (a *adder) isOf(r env.Request) func(topology.DeviceID) bool {
	return func(id topology.DeviceID) bool {
		return slices.ContainsFunc(a.Variables, func(v env.Variable) bool { return v.IsFor(r.Resource) && slices.Contains(v.IDs, id) })
	}
}

// losesAlias reports whether libvirt drops the alias of a request's hostdev.
func losesAlias(r env.Request) bool { return !r.Claim && aliasPart(r.Name) != r.Name }

// take removes the first such device, and reports whether there is one.
func take(ids *[]topology.DeviceID, isSuch func(topology.DeviceID) bool) bool {
	at := slices.IndexFunc(*ids, isSuch)
	if at < 0 {
		return false
	}
	*ids = slices.Delete(*ids, at, at+1)
	return true
}

// firstFree is the first device of a resource that is not taken. Primaries go
// before companions, so that a list of a whole IOMMU group in any order gives
// the GPU and not its audio function.
func (a *adder) firstFree(kind topology.Kind, resource string) (topology.DeviceID, bool) {
	for _, v := range a.Variables {
		if v.Kind != kind || !v.IsFor(resource) {
			continue
		}
		for _, id := range a.primariesFirst(v.IDs) {
			if !a.taken[id] {
				return id, true
			}
		}
	}
	return topology.DeviceID{}, false
}

func (a *adder) primariesFirst(ids []topology.DeviceID) []topology.DeviceID {
	var primaries, companions []topology.DeviceID
	for _, id := range ids {
		if isCompanion(a.Host, id, ids) {
			companions = append(companions, id)
		} else {
			primaries = append(primaries, id)
		}
	}
	return append(primaries, companions...)
}

// isCompanion reports whether another device of ids is a lower function of the
// same device. Where sysfs is silent about the IOMMU groups they count as one.
func isCompanion(host *topology.Host, id topology.DeviceID, ids []topology.DeviceID) bool {
	pci, ok := id.PCI()
	if !ok || host.IsVirtualFunction(pci) {
		return false
	}
	return slices.ContainsFunc(ids, func(other topology.DeviceID) bool {
		lead, ok := other.PCI()
		return ok && lead.SameDevice(pci) && lead.Function < pci.Function &&
			!host.IsVirtualFunction(lead) && mayShareGroup(host.Device(lead), host.Device(pci))
	})
}

func mayShareGroup(x, y *topology.Device) bool {
	return x == nil || y == nil || x.IOMMUGroup == nil || y.IOMMUGroup == nil || *x.IOMMUGroup == *y.IOMMUGroup
}

// hostdev is what virt-launcher writes for a device of request r.
func (a *adder) hostdev(list requestList, r env.Request, id topology.DeviceID) domain.Hostdev {
	h := domain.Hostdev{ID: id, Alias: list.prefixes[0] + r.Name}
	if list.gpus && hasGraphics(a.Domain) {
		h.Display, h.RamFB = displayOf(r, list.requests, id, !a.hasMediatedGPU())
	}
	return h
}

// hasMediatedGPU reports whether a mediated device of the VMI's gpus is in the
// domain or was added.
func (a *adder) hasMediatedGPU() bool {
	return slices.ContainsFunc(slices.Concat(a.Domain.Hostdevs, a.added), func(h domain.Hostdev) bool {
		return h.ID.Kind() == topology.KindMDEV && strings.HasPrefix(h.Alias, "ua-gpu-")
	})
}

// addOthers adds each further device of the variables that is no companion.
func (a *adder) addOthers() {
	known := Candidates(a.Domain, a.Variables)
	for _, v := range a.Variables {
		var ids []topology.DeviceID
		for _, id := range v.IDs {
			if !a.taken[id] && !isCompanion(a.Host, id, known) {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, topology.DeviceID.Compare)
		for _, id := range ids {
			a.add(domain.Hostdev{ID: id, Alias: a.freeAlias("ua-hostdevice-" + aliasPart(a.nameOf(v)))})
		}
	}
}

// nameOf is the resource of a variable, or its name without the prefix where
// the VMI has no resource for it.
func (a *adder) nameOf(v env.Variable) string {
	if resources := a.asked.resourcesOf(v); len(resources) > 0 {
		return resources[0]
	}
	return v.Suffix
}

// freeAlias is prefix-0, prefix-1 or the next that the domain does not use.
func (a *adder) freeAlias(prefix string) string {
	for n := 0; ; n++ {
		alias := fmt.Sprintf("%s-%d", prefix, n)
		if !slices.Contains(a.aliases, alias) {
			return alias
		}
	}
}

// aliasPart keeps the characters that libvirt takes in a user alias; it drops
// an alias with any other silently (libvirt src/conf/domain_conf.c,
// virDomainDeviceInfoParseXML).
func aliasPart(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return -1
	}, s)
}

// addCompanions adds the functions of the domain's devices that share their IOMMU
// group, are bound to a VFIO driver and are not in the domain.
func (a *adder) addCompanions() {
	for _, lead := range a.leads() {
		pci, _ := lead.ID.PCI()
		own := a.Host.Device(pci)
		if own == nil || own.IOMMUGroup == nil || own.PhysFn != nil {
			continue
		}
		for _, f := range a.Host.Devices {
			id := topology.PCIDevice(f.Address)
			if a.taken[id] || !f.Address.SameDevice(pci) || f.PhysFn != nil || !f.IsVFIO() ||
				f.IOMMUGroup == nil || *f.IOMMUGroup != *own.IOMMUGroup {
				continue
			}
			companion := domain.Hostdev{ID: id}
			alias := fmt.Sprintf("%s-fn%d", lead.Alias, f.Address.Function)
			if lead.Alias != "" && !slices.Contains(a.aliases, alias) { // libvirt refuses one twice
				companion.Alias = alias
			}
			a.add(companion)
		}
	}
}

// leads are the lowest function of each PCI device in the domain or added, by
// address.
func (a *adder) leads() []domain.Hostdev {
	all := slices.DeleteFunc(slices.Concat(a.Domain.Hostdevs, a.added), func(h domain.Hostdev) bool {
		return h.ID.Kind() != topology.KindPCI
	})
	slices.SortFunc(all, func(x, y domain.Hostdev) int { return x.ID.Compare(y.ID) })
	return slices.CompactFunc(all, func(x, y domain.Hostdev) bool {
		px, _ := x.ID.PCI()
		py, _ := y.ID.PCI()
		return px.SameDevice(py)
	})
}
