package request

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/env"
	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Additions returns the hostdevs that a policy adds to a domain from the variables.
func (r Requests) Additions(
	d *domain.Domain, host *topology.Host, p policy.Policy,
) ([]domain.Hostdev, []reasons.Finding) {
	a := &adder{
		Requests: r, domain: d, host: host,
		taken:   make(map[topology.DeviceID]bool, len(d.Hostdevs)),
		aliases: make(map[string]bool, len(d.HostdevAliases)), next: map[string]int{},
		free: make([][]topology.DeviceID, len(r.variables)), warnings: r.collisions(),
	}

	for _, alias := range d.HostdevAliases {
		a.aliases[alias] = true
	}

	for _, id := range d.CommandLine.IDs() {
		a.aliases[id] = true // QEMU refuses a second device of an id
	}

	for _, h := range d.Hostdevs {
		a.taken[h.ID] = true
	}

	if p.Add != policy.AddNone {
		present := a.matchPresent()
		for _, l := range r.lists {
			a.addRequested(l, present)
		}
	}

	if p.Add == policy.AddAll {
		a.addOthers()
	}

	if p.Companions == policy.CompanionsAdd {
		a.addCompanions()
	}

	return a.added, a.warnings
}

// adder gives out each device of the variables once.
type adder struct {
	Requests
	domain  *domain.Domain
	host    *topology.Host
	taken   map[topology.DeviceID]bool
	aliases map[string]bool // in use
	next    map[string]int  // the number that freeAlias tries, by prefix
	// of each variable, in the order in which they are given out; nil until needed
	free [][]topology.DeviceID

	added    []domain.Hostdev
	warnings []reasons.Finding
}

func (a *adder) add(h domain.Hostdev) {
	h.HasMode = true
	a.taken[h.ID] = true
	a.aliases[h.Alias] = true
	a.added = append(a.added, h)
}

func (a *adder) warn(code reasons.Code, format string, args ...any) {
	a.warnings = append(a.warnings, reasons.NewFinding(code, nil, fmt.Sprintf(format, args...)))
}

// addRequested adds the devices that the VMI names and the domain lacks, in the order of
// virt-launcher: all PCI devices of a list, then all mediated ones.
func (a *adder) addRequested(l list, present map[*kubevirt.Request]bool) {
	var open []kubevirt.Request
	for i, r := range l.requests {
		switch {
		case r.IsClaim() || present[&l.requests[i]]:
		case !domain.IsWritable(r.Name):
			a.warn(reasons.CodeBadDeviceName,
				"%s of the VMI has no hostdev, and its name %q cannot be written in XML",
				strings.TrimSuffix(strings.TrimPrefix(l.prefixes[0], "ua-"),
					"-"), words.Abridge(r.Name))

		default:
			open = append(open, r)
		}
	}

	// A request may get a device of either kind. virt-launcher makes all PCI devices of a list first,
	// so a request for which a PCI device is left takes that.
	for _, kind := range []topology.Kind{topology.KindPCI, topology.KindMDEV} {
		var left []kubevirt.Request
		for _, r := range open {
			if id, found := a.firstFree(kind, r.Resource); found {
				a.add(a.hostdev(l, r, id))
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

		a.warn(reasons.CodeNotAllocated, "%s of the VMI has no hostdev, and %s",
			l.prefixes[0]+r.Name, why)
	}
}

// matchPresent finds the requests that have a hostdev in the domain: one with an
// alias of theirs, one with an alias that virt-launcher does not write and that the
// variable of their resource lists, or one without any, since libvirt drops an alias with other
// characters than its own. The latter match the requests of the resource whose
// variable lists them; those that no variable lists, one request each.
func (a *adder) matchPresent() map[*kubevirt.Request]bool {
	// Hostdevs with an alias of virt-launcher's are found by it. The others are matched by what the
	// variables list, and each is used up by one request.
	var unnamed, otherNames []topology.DeviceID
	for _, h := range a.domain.Hostdevs {
		switch {
		case h.Alias == "":
			unnamed = append(unnamed, h.ID)
		case !a.isVirtLaunchers(h.Alias):
			otherNames = append(otherNames, h.ID)
		}
	}

	present := map[*kubevirt.Request]bool{}
	match := func(isPresent func(list, kubevirt.Request) bool) {
		for _, l := range a.lists {
			for i := range l.requests {
				r := &l.requests[i]
				present[r] = present[r] || isPresent(l, *r)
			}
		}
	}

	isUnlisted := func(id topology.DeviceID) bool {
		return !slices.ContainsFunc(a.variables, func(v env.Variable) bool {
			return slices.Contains(v.IDs, id)
		})
	}

	// From what is certain to what is a guess: an earlier match leaves less for the later ones.
	match(func(l list, r kubevirt.Request) bool {
		return slices.ContainsFunc(l.prefixes, func(prefix string) bool {
			return a.aliases[prefix+r.Name]
		})
	})

	match(func(_ list, r kubevirt.Request) bool { return take(&otherNames, a.isOf(r)) })
	match(func(_ list, r kubevirt.Request) bool {
		return losesAlias(r) && take(&unnamed, a.isOf(r))
	})
	match(func(_ list, r kubevirt.Request) bool {
		return losesAlias(r) && take(&unnamed, isUnlisted)
	})
	return present
}

// isOf returns whether a variable of the request's resource lists a device.
func (a *adder) isOf(r kubevirt.Request) func(topology.DeviceID) bool {
	return func(id topology.DeviceID) bool {
		return slices.ContainsFunc(a.variables, func(v env.Variable) bool {
			return v.IsFor(r.Resource) && slices.Contains(v.IDs, id)
		})
	}
}

// losesAlias reports whether libvirt drops the alias of a request's hostdev.
func losesAlias(r kubevirt.Request) bool { return !r.IsClaim() && aliasPart(r.Name) != r.Name }

// take removes the first such device, and reports whether there is one.
func take(ids *[]topology.DeviceID, isSuch func(topology.DeviceID) bool) bool {
	at := slices.IndexFunc(*ids, isSuch)
	if at < 0 {
		return false
	}

	*ids = slices.Delete(*ids, at, at+1)
	return true
}

// firstFree returns the first device of a resource that is not taken. Primaries go before
// companions, so that a list of a whole IOMMU group in any order gives the GPU and not its audio
// function.
func (a *adder) firstFree(kind topology.Kind, resource string) (topology.DeviceID, bool) {
	for i, v := range a.variables {
		if v.Kind != kind || !slices.Contains(a.resources[i], resource) {
			continue
		}

		if a.free[i] == nil {
			a.free[i] = primariesFirst(a.host, v.IDs)
		}

		for len(a.free[i]) > 0 {
			id := a.free[i][0]
			a.free[i] = a.free[i][1:]
			if !a.taken[id] {
				return id, true
			}
		}
	}

	return topology.DeviceID{}, false
}

func primariesFirst(host *topology.Host, ids []topology.DeviceID) []topology.DeviceID {
	isCompanion := companionsAmong(host, ids)
	primaries := slices.DeleteFunc(slices.Clone(ids), func(id topology.DeviceID) bool {
		return isCompanion[id]
	})

	companions := slices.DeleteFunc(slices.Clone(ids), func(id topology.DeviceID) bool {
		return !isCompanion[id]
	})

	return slices.Concat(primaries, companions)
}

// companionsAmong returns the ids whose device also has a lower-numbered function in ids. If sysfs
// has no IOMMU groups, they count as one group.
func companionsAmong(host *topology.Host, ids []topology.DeviceID) map[topology.DeviceID]bool {
	functions := map[topology.Address][]topology.Address{} // by function 0 of the device
	for _, id := range ids {
		pci, ok := id.PCI()
		if f := host.Function(id); ok && (f == nil || f.PhysFn == nil) {
			lead := topology.Address{Domain: pci.Domain, Bus: pci.Bus, Device: pci.Device}
			functions[lead] = append(functions[lead], pci)
		}
	}

	companions := map[topology.DeviceID]bool{}
	for _, own := range functions {
		for _, pci := range own {
			companions[topology.PCIDevice(pci)] = slices.ContainsFunc(own,
				func(lead topology.Address) bool {
					return lead.Function < pci.Function &&
						mayShareGroup(host.FunctionAt(lead), host.FunctionAt(pci))
				})
		}
	}

	return companions
}

func mayShareGroup(x, y *topology.Function) bool {
	return x == nil || y == nil || x.IOMMUGroup == nil || y.IOMMUGroup == nil ||
		*x.IOMMUGroup == *y.IOMMUGroup
}

// hostdev returns the hostdev that virt-launcher writes for a device of request r.
func (a *adder) hostdev(l list, r kubevirt.Request, id topology.DeviceID) domain.Hostdev {
	h := domain.Hostdev{ID: id, Alias: l.prefixes[0] + r.Name}

	// Without a graphics device libvirt refuses a display (src/qemu/qemu_validate.c,
	// qemuValidateDomainMdevDefVFIOPCI).
	hasGraphics := slices.ContainsFunc(a.domain.Others, func(o domain.Device) bool {
		return o.Element == "graphics"
	})

	if l.gpus && hasGraphics {
		isMediatedGPU := func(h domain.Hostdev) bool {
			return h.ID.Kind() == topology.KindMDEV && strings.HasPrefix(h.Alias, "ua-gpu-")
		}
		isFirst := !slices.ContainsFunc(slices.Concat(a.domain.Hostdevs, a.added), isMediatedGPU)
		h.Display, h.RamFB = displayOf(r, l.requests, id, isFirst)
	}

	return h
}

// displayOf returns whether a GPU that is added gets a display and a ramfb, by the
// rules of KubeVirt v1.9.0 pkg/virt-launcher/virtwrap/device/hostdevice/hostdev.go:
// a PCI GPU gets each only where it is enabled explicitly (isRamFBSet;
// KubeVirt's main gives the display a ramfb unless that is disabled, the release
// counts here); of mediated GPUs the first gets both, unless any GPU of the VMI
// has display options, which then count for each of its own. First means that no
// mediated GPU is in the domain yet.
func displayOf(
	r kubevirt.Request, gpus []kubevirt.Request, id topology.DeviceID, first bool,
) (display, ramfb bool) {
	byDefault := false
	if id.Kind() == topology.KindMDEV {
		if !slices.ContainsFunc(gpus, func(g kubevirt.Request) bool {
			return g.Options.Display != nil
		}) {
			return first, first
		}
		byDefault = r.Options.Display != nil
	}

	options := cmp.Or(r.Options.Display, &kubevirt.DisplayOptions{})
	isEnabled := func(option *bool) bool {
		return option == nil && byDefault || option != nil && *option
	}

	display = isEnabled(options.Enabled)
	return display, display && isEnabled(options.RamFB.Enabled)
}

// addOthers adds each further device of the variables that is not a companion.
func (a *adder) addOthers() {
	ids := slices.Collect(maps.Keys(a.taken))
	for _, v := range a.variables {
		ids = append(ids, v.IDs...)
	}

	isCompanion := companionsAmong(a.host, ids)
	for i, v := range a.variables {
		// the VMI may have no resource for it
		name := slices.Concat(a.resources[i], []string{v.Suffix})[0]
		ids := slices.DeleteFunc(slices.Clone(v.IDs), func(id topology.DeviceID) bool {
			return a.taken[id] || isCompanion[id]
		})

		slices.SortFunc(ids, topology.DeviceID.Compare)
		for _, id := range ids {
			a.add(domain.Hostdev{ID: id, Alias: a.freeAlias("ua-hostdevice-" + aliasPart(name))})
		}
	}
}

// freeAlias returns prefix-0, prefix-1 or the next that the domain does not use.
func (a *adder) freeAlias(prefix string) string {
	for ; ; a.next[prefix]++ {
		alias := fmt.Sprintf("%s-%d", prefix, a.next[prefix])
		if !a.aliases[alias] {
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
		own := a.host.FunctionAt(pci)
		if own == nil || own.IOMMUGroup == nil || own.PhysFn != nil {
			continue
		}

		for function := range uint8(8) {
			pci.Function = function
			id, f := topology.PCIDevice(pci), a.host.FunctionAt(pci)
			if f == nil || a.taken[id] || f.PhysFn != nil || !f.IsVFIO() ||
				f.IOMMUGroup == nil || *f.IOMMUGroup != *own.IOMMUGroup {
				continue
			}

			companion := domain.Hostdev{ID: id}
			alias := fmt.Sprintf("%s-fn%d", lead.Alias, function)
			if lead.Alias != "" && !a.aliases[alias] { // libvirt refuses one twice
				companion.Alias = alias
			}

			a.add(companion)
		}
	}
}

// leads returns the lowest function of each PCI device in the domain or added, by address.
func (a *adder) leads() []domain.Hostdev {
	all := slices.DeleteFunc(slices.Concat(a.domain.Hostdevs, a.added),
		func(h domain.Hostdev) bool {
			return h.ID.Kind() != topology.KindPCI
		})

	slices.SortFunc(all, func(x, y domain.Hostdev) int { return x.ID.Compare(y.ID) })
	return slices.CompactFunc(all, func(x, y domain.Hostdev) bool {
		px, _ := x.ID.PCI()
		py, _ := y.ID.PCI()
		return px.SameDevice(py)
	})
}
