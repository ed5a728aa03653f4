package doctor

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/findings"
	"hook-sidecar/pkg/keys"
	"hook-sidecar/pkg/keys/firmware"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// barWindow checks whether the devices' BARs fit into the firmware's windows.
func barWindow(in Inputs) []Result { return append(largeBARs(in), lowBARs(in)...) }

// lowBARs checks the window below 4 GiB, where it is not enough or switch ports with a link take
// some.
func lowBARs(in Inputs) []Result {
	guest := in.firmware()
	all, ports := guest.Low()
	need := "below 4 GiB BARs and hotplug take " + words.BytesNeeded(all)
	if ports > 0 {
		need += fmt.Sprintf(", %s of it for switch ports with a link", words.BytesNeeded(ports))
	}

	window := guest.LowWindow()
	switch {
	case all > window && ports > 0:
		return fail("leave port-speed=host out, or pass fewer devices through",
			"%s, the window has %s", need, words.BytesThere(window))

	case all > window:
		return fail("pass fewer devices through", "%s, the window has %s", need,
			words.BytesThere(window))

	case ports > 0:
		return pass("%s, the window has %s", need, words.BytesThere(window))
	}

	return nil
}

// largeBARs checks the window of the 64-bit BARs.
func largeBARs(in Inputs) []Result {
	guest := in.firmware()
	fit := guest.Fit()
	switch {
	case fit.Sum == 0:
		return nil
	case !fit.Known:
		enough := bits.Len64(guest.Required(fit.Taken, 0)) + firmware.WindowShift
		return note(fmt.Sprintf("a host-passthrough CPU has the host's bits; OVMF's window is an "+
			"eighth of the address space, so %d bits are enough", enough),
			"%s; the guest's physical address bits are not known", fit.Need(0))

	case !fit.IsEnough():
		return fail(in.windowHint(), "%s", fit.Have(fit.Need(fit.Required)))
	}

	return pass("%s", fit.Have(fit.Need(0)))
}

// windowHint returns how the guest gets a larger window: if it has the host's bits, another CPU
// gives no more, and X-PciMmio64Mb is OVMF's.
func (in Inputs) windowHint() string {
	if in.Plan.Domain().Arch == "aarch64" {
		return "set pcihole64 of the pcie-root controller to a larger power of two (libvirt 12.8)"
	}

	if bytes, _ := in.firmware().Reserve(); bytes > 0 {
		return "lower pref64-reserve of the root ports"
	}

	var ways []string
	if _, source := in.firmware().Bits(); source != firmware.HostBits {
		ways = append(ways, "give the guest a host-passthrough CPU")
	}

	entry := in.Plan.Domain().FWCfg(domain.WindowEntry)
	switch {
	case !in.Plan.Domain().UEFI:
	case entry != nil && entry.Mark() == "":
		ways = append(ways, "correct X-PciMmio64Mb in qemu:commandline")
	case in.Plan.Policy.IsDefault(policy.KeyMMIOWindow):
		ways = append(ways, "set mmio-window=auto")
	}

	if len(ways) == 0 {
		return "pass fewer devices through"
	}

	return strings.Join(ways, ", or ")
}

func (in Inputs) firmware() firmware.Input {
	return keys.Firmware(in.Plan, in.Plan.Domain(), in.HostPhysBits)
}

// ioSpace checks whether the firmware has room for all ports with an I/O BAR.
func ioSpace(in Inputs) []Result {
	space, exists := findings.IOSpaceOf(in.Plan)
	if !exists {
		return nil
	}

	return orPass(in.found("io-space"), "%s with an I/O BAR, %s has room for %d ports with one",
		words.Counted(space.Devices, "device"), space.Firmware, space.Room)
}

// atomics checks whether QEMU lets a root port complete PCIe AtomicOps for each whole AMD GPU. Whether
// the host's path has them is asked by atomicsPath.
func atomics(in Inputs) []Result {
	gpus := topology.CountFunc(in.Plan.Devices, placement.Decision.NeedsAtomics)
	if gpus == 0 {
		return nil
	}

	return orPass(in.found("atomics"), "%s alone on a root port, as QEMU's PCIe AtomicOps need it",
		words.Counted(gpus, "whole AMD GPU"))
}

// grace checks the elements for NVIDIA Grace, where a device names cells or should.
func grace(in Inputs) []Result {
	found := in.found("grace")
	if len(found) == 0 && !slices.ContainsFunc(in.Plan.Devices, func(d placement.Decision) bool {
		return d.MemoryCells != ""
	}) {
		return nil
	}

	return orPass(found, "QEMU takes cells, SMMUv3 and window")
}

// pciHole checks that the root bus has a 64-bit window if devices with 64-bit BARs are on
// it: pcihole64 sizes no other window.
func pciHole(in Inputs) []Result {
	if hole := in.Plan.Domain().PCIHole64; hole == nil || *hole > 0 {
		return pass("not disabled")
	}

	const hint = "remove the annotation kubevirt.io/disablePCIHole64 from the VMI"
	var onRootBus []topology.Address
	for _, f := range in.firmware().Functions {
		n := in.Plan.GuestTree.Node(topology.PCIDevice(f.Address))
		if len(f.LargeBARs()) > 0 && n.Top().ID == topology.Index(0) {
			onRootBus = append(onRootBus, f.Address)
		}
	}

	if len(onRootBus) > 0 {
		return warn(hint, "pcihole64 is 0, and devices with 64-bit BARs are on the root bus: %s",
			list(onRootBus))
	}

	return note(hint,
		"pcihole64 is 0; the devices are under expander buses, whose windows it does not size")
}
