package keys

import (
	"fmt"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/keys/firmware"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// writeMMIOWindow sets a window of OVMF that holds the devices' 64-bit BARs, where OVMF would
// choose a smaller one. The user's own entry stays: QEMU refuses a second one.
//
// pcihole64 does not matter: no firmware reads it, and QEMU reports all that the firmware has given
// to the root bus (hw/pci-host/q35.c, q35_host_get_pci_hole64_end).
func writeMMIOWindow(vm Planned) Writing {
	if len(vm.Devices) == 0 {
		return Writing{}
	}

	mark := optionMark(policy.KeyMMIOWindow)
	var written uint64
	if len(vm.Domain().Marked(mark)) > 0 {
		written = vm.Domain().WindowBytes()
	}

	bits := 0
	if vm.PhysBits != nil {
		bits = vm.PhysBits()
	}

	without := domain.Changes{Marked: map[domain.Mark]domain.Marked{mark: {}}}
	set, text, isEnough := chooseWindow(Firmware(vm.Plan, vm.Domain().After(without), bits),
		written)
	switch {
	case !isEnough:
		return refused(reasons.CodeMMIOWindow, text)
	case set == 0:
		return Writing{Line: text}
	}

	value := fmt.Sprintf("name=%s,string=%d,id=%s", domain.WindowEntry, set>>20, mark)
	return one(domain.Option{Name: domain.OptionFWCfg, Value: value}, text)
}

// Firmware returns the input of the firmware model: a domain with the devices of a plan, on a host
// with these physical address bits, 0 for unknown. Ports that libvirt and KubeVirt will yet add to
// the root bus can hotplug.
func Firmware(plan *placement.Plan, d *domain.Domain, hostPhysBits int) firmware.Input {
	guest := firmware.Input{Domain: d, Tree: plan.WholeTree(), HostPhysBits: hostPhysBits}
	for _, device := range plan.Devices {
		if device.ID.Kind() == topology.KindPCI && device.Function != nil {
			guest.Functions = append(guest.Functions, device.Function)
		}
	}

	guest.IntelHost = isIntel(plan.Host, guest.Functions)
	guest.PendingPorts = plan.Budgets.BusNumbers.Used - 1 // of the bus itself

	for _, c := range plan.Controllers {
		n := plan.GuestTree.Node(topology.Index(c.Index))
		if c.Index != 0 && c.Model != domain.ExpanderBus && n != nil &&
			n.Top() == plan.GuestTree.Roots[0] {
			guest.PendingPorts--
		}
	}

	guest.PendingPorts = max(0, guest.PendingPorts)
	return guest
}

// isIntel tells a host with Intel's CPUs by the vendor of the root ports above the devices. If that
// is unknown it is true: OVMF then has the smaller window.
func isIntel(host *topology.Host, functions []*topology.Function) bool {
	for _, f := range functions {
		if len(f.Bridges) == 0 {
			continue
		}
		if port := host.FunctionAt(f.Bridges[0]); port != nil && port.Vendor != 0 {
			return port.Vendor == topology.VendorIntel
		}
	}

	return true
}

// chooseWindow returns the window of OVMF that a guest needs, 0 if it needs none or cannot have
// it, and a line about it. The line is a warning if the window is not enough. The window of an
// earlier call stays, though it may be needless now: between two calls libvirt replaces machine
// q35 by its version, and then the guest's address bits are known.
func chooseWindow(guest firmware.Input, written uint64) (set uint64, text string, isEnough bool) {
	fit := guest.Fit()
	if fit.Sum == 0 {
		return 0, "no device has a 64-bit BAR on the host", true
	}

	enough := guest.SmallestWindow(fit.Taken)
	if guest.Domain.Arch == "aarch64" {
		enough = 0 // OVMF chooses none
	}

	need := fit.Need(guest.Required(fit.Taken, max(fit.Window.Bytes, enough)))
	there := fit.Have(need)

	// Each call of a boot has to choose the same window, so it counts on bits that all of them
	// know.
	bits, source := guest.SureBits()
	users := guest.Domain.FWCfg(domain.WindowEntry)
	stays := written > 0 && written == enough && guest.HasRoom(enough, bits)

	// First what needs no other window, then what keeps one from being set: the firmware, the
	// user, the sizes that OVMF takes, and last the address space.
	switch {
	case fit.IsEnough() && !stays:
		return 0, there, true
	case !fit.Known && !guest.Domain.UEFI:
		return 0, need + "; SeaBIOS takes all of the address space after the memory", true
	case guest.Domain.Arch == "aarch64", !guest.Domain.UEFI:
		return 0, there, false
	case users != nil:
		return 0, fmt.Sprintf("%s, and the domain's own %s %q stays", need, users.Name,
			words.Abridge(users.Value)), false

	// This is OVMF's default, so there is nothing to write, unless it is known to be beyond the
	// address space.
	case enough == firmware.LeastWindow && (!fit.Known || fit.Window.Bytes > 0):
		return 0, fmt.Sprintf("%s, the window has at least %s", need,
			words.BytesThere(enough)), true

	case enough == 0:
		return 0, fmt.Sprintf("%s, and the largest window that OVMF takes has %s", need,
			words.BytesThere(firmware.MostWindow)), false

	case bits > 0 && !guest.HasRoom(enough, bits):
		memory := "the guest's memory"
		if most := guest.Domain.MaxMemoryBytes; most > guest.Domain.MemoryBytes {
			memory += ", which can grow to " + words.BytesThere(most)
		}
		return 0, fmt.Sprintf("%s, and %d bits of %s have no room for a window of %s after %s",
			need, bits, source, words.BytesThere(enough), memory), false

	case !fit.Known:
		return enough,
			fmt.Sprintf("the window has at least %s: %s; the guest's physical address bits are "+
				"not known", words.BytesThere(enough), need), true
	}

	return enough, fmt.Sprintf("the window has %s: %s; without the key it has %s: %s",
		words.BytesThere(enough), need, words.BytesThere(fit.Window.Bytes),
		fit.Window.Reason), true
}
