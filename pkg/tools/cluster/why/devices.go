package why

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"hook-sidecar/pkg/words/lazyregexp"
)

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

// hasOnlyVFs reports whether all devices that the VMI asks for are interfaces with SR-IOV.
func (e *Evidence) hasOnlyVFs() bool {
	if e.vmi == nil {
		return false
	}
	devices := e.vmi.Spec.Domain.Devices
	return len(devices.GPUs)+len(devices.HostDevices) == 0 && e.countDevices() > 0
}

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
