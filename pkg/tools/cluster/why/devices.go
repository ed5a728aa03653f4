package why

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"hook-sidecar/pkg/words/lazyregexp"
)

// The VM's devices on its node, by which the lines of the node's kernel are told from those of
// others: what the domain, the variables of its pod, virt-launcher, QEMU and CNI plugins name.

// hardware are devices of the VM's node.
type hardware struct {
	own     map[string]bool // PCI addresses without a function, and UUIDs, of the VM's devices
	near    map[string]bool // of the ports above them, and of their IOMMU groups
	isWhole bool            // all of the VM's devices are known
	// functions of the VM's devices, as 0000:3b:02.1, where they are known, and whether all of its
	// devices are virtual functions of NICs
	functions map[string]bool
	areVFs    bool
	numbers   map[string]bool // of the VM's virtual functions, which their NICs' drivers print
}

// Where the VM's devices are named: in the domain (libvirt docs/formatdomain, hostdev), in
// variables of the pod (KubeVirt pkg/util/util.go), in virt-launcher's log (KubeVirt
// pkg/virt-launcher/virtwrap/device/hostdevice), in QEMU's messages and in annotations of CNI
// plugins.
var (
	domainSource = lazyregexp.New(`<source[^>]*>\s*<address ([^>]*)/?>`)
	domainPart   = lazyregexp.New(`\b(domain|bus|slot|function|uuid)=['"](?:0x)?([0-9a-fA-F-]+)['"]`)
	ownVariable  = lazyregexp.New(`(?m)^(?:PCIDEVICE|PCI_RESOURCE|MDEV_PCI_RESOURCE)_\w+=(\S+)$`)
	madeDevice   = lazyregexp.New(`device created: ([0-9a-fA-F:.-]{12,36})`)
	qemuDevice   = lazyregexp.New(`(?:\bhost["=: ]+|vfio )([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])`)
	networkPCI   = lazyregexp.New(`pci-address\W+([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])`)
)

// anyAddress is a PCI address in a line of a kernel, also without its domain or its function, and
// uuids are those of mediated devices.
var (
	anyAddress = lazyregexp.New(`\b(?:(?:[0-9a-f]{4})?[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?` +
		`|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`)
	pathAddress = lazyregexp.New(`\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b`)
)

// findHardware returns the devices of the VM, as far as they are named.
func (e *Evidence) findHardware() hardware {
	h := hardware{
		own: map[string]bool{}, near: map[string]bool{}, functions: map[string]bool{},
		numbers: map[string]bool{}, areVFs: e.hasOnlyVFs(),
	}
	add := func(all [][]string) {
		for _, f := range all {
			for name := range strings.SplitSeq(strings.Trim(f[1], `"'`), ",") {
				h.add(name)
			}
		}
	}

	for _, source := range domainSource.FindAllStringSubmatch(e.domain, -1) {
		if name := domainAddress(source[1]); name != "" {
			h.add(name)
		}
	}

	add(ownVariable.FindAllStringSubmatch(e.variables, -1))
	h.isWhole = len(h.own) > 0

	for _, name := range e.made {
		h.add(name)
	}

	for _, n := range e.entries {
		if n.origin != nodes && n.origin != guests && n.passed == "" && n.program == "" {
			add(qemuDevice.FindAllStringSubmatch(plain(n.text), -1))
		}
	}

	for _, pod := range e.pods {
		if e.isOwn("Pod", pod.Namespace, pod.Name) {
			for _, note := range pod.Annotations {
				add(networkPCI.FindAllStringSubmatch(note, -1))
			}
		}
	}

	e.addUsed(&h)
	h.isWhole = h.isWhole || len(h.own) > 0 && len(h.own) >= e.countDevices()
	h.addNear(e.topology)
	for function := range h.functions {
		if number := e.numbers[function]; number != "" {
			h.numbers[number] = true
		}
	}

	return h
}

// add adds a device by its address or UUID.
func (h *hardware) add(name string) {
	slot := slotOf(name)
	h.own[slot] = true
	if _, function, hasFunction := strings.Cut(name, "."); hasFunction {
		h.functions[slot+"."+function] = true
	}
}

// hasOnlyVFs reports whether all devices that the VMI asks for are interfaces with SR-IOV.
func (e *Evidence) hasOnlyVFs() bool {
	if e.vmi == nil {
		return false
	}
	devices := e.vmi.Spec.Domain.Devices
	return len(devices.GPUs)+len(devices.HostDevices) == 0 && e.countDevices() > 0
}

// use is that vfio-pci names a device, which it does as QEMU opens the device (Linux
// drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_enable).
type use struct {
	slot string
	at   stampOf
}

// isUse reports whether a line of the node's kernel, which names a device, is of such a use.
func isUse(line string) bool { return strings.Contains(line, "vfio-pci 0") }

// addUsed adds the devices that vfio-pci used as the VM started, where nothing else names the VM's:
// those of the log, if they are no more than the VM asks for, else those that were used at that
// time.
func (e *Evidence) addUsed(h *hardware) {
	count := e.countDevices()
	if len(h.own) >= count {
		return
	}

	all, then := map[string]bool{}, map[string]bool{}
	for _, u := range e.uses {
		all[u.slot] = true
		if e.isStart(u.at) {
			then[u.slot] = true
		}
	}

	for _, used := range []map[string]bool{all, then} {
		maps.Copy(used, h.own)
		if len(used) <= count {
			maps.Copy(h.own, used)
			return
		}
	}
}

// isStart reports whether a line of the node's kernel was printed as the VM started, in whatever
// time zone of whole or half hours.
func (e *Evidence) isStart(at stampOf) bool {
	const longest, zone = 90 * time.Second, 30 * time.Minute
	if at.at.IsZero() && (at.clock.IsZero() || at.clock.Year() == 1970) {
		return false // since the boot
	}

	for _, n := range e.entries {
		isStarting := n.passed == StageStart || n.passed == StageContainer && n.subject == "compute"
		if !isStarting || n.at.IsZero() {
			continue
		}

		if !at.at.IsZero() && at.at.Sub(n.at).Abs() <= longest {
			return true
		}

		clock := at.clock.AddDate(n.at.Year()-at.clock.Year(), 0, 0)
		off := clock.Sub(n.at)
		if at.at.IsZero() && off.Abs() <= 14*time.Hour && (off-off.Round(zone)).Abs() <= longest {
			return true
		}
	}

	return false
}

// domainAddress returns the address or the UUID of a hostdev's source; "" if it has neither.
func domainAddress(attributes string) string {
	parts := map[string]string{}
	for _, f := range domainPart.FindAllStringSubmatch(attributes, -1) {
		parts[f[1]] = strings.ToLower(f[2])
	}

	switch {
	case parts["uuid"] != "":
		return parts["uuid"]
	case parts["bus"] == "" || parts["slot"] == "":
		return ""
	}

	pad := func(text string, size int) string {
		return strings.Repeat("0", max(0, size-len(text))) + text
	}
	address := pad(parts["domain"], 4) + ":" + pad(parts["bus"], 2) + ":" + pad(parts["slot"], 2)
	return address + "." + cmp.Or(parts["function"], "0")
}

// countDevices returns how many devices the VMI asks for; 0 if it was not read.
func (e *Evidence) countDevices() int {
	if e.vmi == nil {
		return 0
	}

	devices := e.vmi.Spec.Domain.Devices
	count := len(devices.GPUs) + len(devices.HostDevices)
	for _, i := range devices.Interfaces {
		if i.SRIOV != nil {
			count++
		}
	}

	return count
}

// addNear adds what a node's kernel and its sysfs say of what lies above the VM's devices, and of
// their IOMMU groups.
func (h *hardware) addNear(topology string) {
	groups := map[string][]string{} // the slots in each
	for line := range strings.Lines(topology) {
		var slots []string
		for _, f := range pathAddress.FindAllString(line, -1) {
			slots = append(slots, slotOf(f))
		}

		if at := slices.IndexFunc(slots, h.isOwnSlot); at > 0 || at < 0 && h.hasUUID(line) {
			for _, slot := range slots {
				h.near[slot] = true // of a path in sysfs: what it passes
			}
		}

		if f := groupOf.FindStringSubmatch(line); f != nil && len(slots) > 0 {
			groups[f[1]] = append(groups[f[1]], slots[len(slots)-1])
		}

		if f := bridgeTo.FindStringSubmatch(line); f != nil && h.hasBus(f[1]) {
			h.near[slots[0]] = true
		}
	}

	for members := range maps.Values(groups) {
		if slices.ContainsFunc(members, h.isOwnSlot) {
			for _, slot := range members {
				h.near[slot] = true
			}
		}
	}
}

// groupOf is the IOMMU group of a device, in the kernel's log (Linux drivers/iommu/iommu.c) and in
// sysfs, and bridgeTo the bus below a port, in the kernel's log (Linux drivers/pci/probe.c).
var (
	groupOf  = lazyregexp.New(`(?:Adding to iommu group |kernel/iommu_groups/)(\d+)\b`)
	bridgeTo = lazyregexp.New(`PCI bridge to \[bus ([0-9a-f]{2})`)
)

// isTopology reports whether a line of the kernel says where devices are.
func isTopology(line string) bool {
	return strings.Contains(line, "PCI bridge to [bus ") ||
		strings.Contains(line, "Adding to iommu group ")
}

func (h *hardware) isOwnSlot(slot string) bool { return h.own[slot] }

// ofVF is in lines of a NIC's driver about one of its virtual functions, which are on the bus of
// the NIC: the driver names the NIC's own address.
var ofVF = lazyregexp.New(`\b[Vv][Ff]\b(?:[ #=:-]*(\d+))?`)

// relation says what the devices that a line names are to a VM.
type relation int

const (
	namesNone  relation = iota // it names no device
	namesOwn                   // one of the VM's, one beside it, or a port above it
	namesPort                  // a port, of which nothing says what is below it
	namesOther                 // others
)

// relationOf returns what the devices are that a line of the node's kernel names.
func (h *hardware) relationOf(line string) relation {
	text := (&message{}).setHost(line)
	rest := strings.ToLower(text)
	found := anyAddress.FindAllString(rest, -1)
	vf := ofVF.FindStringSubmatch(text)
	isOfVFs := vf != nil && (vf[1] == "" || len(h.numbers) == 0 || h.numbers[vf[1]])
	for _, address := range found {
		slot := slotOf(address)
		if h.isOther(address) {
			continue
		}
		if h.own[slot] || h.near[slot] || isOfVFs && h.hasBus(busOf(slot)) {
			return namesOwn
		}
	}

	switch {
	case h.hasUUID(rest):
		return namesOwn
	case len(h.near) == 0 && strings.Contains(rest, "pcieport "):
		return namesPort
	case len(found) > 0:
		return namesOther
	}

	return namesNone
}

// hasUUID reports whether a line names one of the VM's mediated devices.
func (h *hardware) hasUUID(line string) bool {
	for name := range h.own {
		if strings.Count(name, "-") == 4 && strings.Contains(line, name) {
			return true
		}
	}
	return false
}

// hasBus reports whether one of the VM's devices is on a bus.
func (h *hardware) hasBus(bus string) bool {
	for slot := range h.own {
		if bus != "" && busOf(slot) == bus {
			return true
		}
	}
	return false
}

// busOf returns the bus of an address without a function; "" if it has none.
func busOf(slot string) string {
	if parts := strings.Split(slot, ":"); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

// isOther reports whether an address is of another virtual function in the slot of one of the VM's:
// these are devices of their own, and the functions of a GPU are one. A VM has function 0 of what is
// one.
func (h *hardware) isOther(address string) bool {
	slot := slotOf(address)
	_, function, hasFunction := strings.Cut(address, ".")
	if !hasFunction || !h.own[slot] || h.functions[slot+"."+function] {
		return false
	}

	isKnown := func(name string) bool { return slotOf(name) == slot }
	hasAny := slices.ContainsFunc(slices.Collect(maps.Keys(h.functions)), isKnown)
	return hasAny && (h.areVFs || !h.functions[slot+".0"])
}

// slotOf returns an address without its function, with a domain of four digits; a UUID as it is.
func slotOf(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	switch parts := strings.Split(address, ":"); {
	case len(parts) == 2:
		return "0000:" + address
	case len(parts) == 3 && len(parts[0]) == 8:
		return address[4:]
	}
	return address
}
