package libvirt

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain"
)

// assignPorts finds the devices that libvirt will plug into a root port
// (src/qemu/qemu_domain_address.c).
func (g *guest) assignPorts() {
	if !g.q35 && !g.virt {
		return
	}

	if g.q35 {
		g.integrateChipset()
	}

	g.joinUSB2()

	// libvirt adds one bridge for all conventional devices, if there is none
	// (qemuDomainAssignPCIAddresses).
	bridge := slices.ContainsFunc(g.domain.Controllers, func(c domain.Controller) bool {
		return c.Model == domain.PCIeToPCIBridge || c.Model == domain.PCIBridge
	})

	for i := range g.devices {
		d := &g.devices[i]
		if d.Address != nil {
			continue
		}

		switch g.how[i] {
		case Express:
			d.NeedsPort = true
		case Conventional:
			d.NeedsPort, d.NeedsBridge = !bridge, !bridge
			bridge = true

		case EitherWay:
			d.NeedsPort, d.NeedsBridge, d.DependsOnQEMUBuild = true, !bridge, true
		}
	}
}

// integrateChipset gives devices q35's slots for them, where these are free: USB 2 at 0x1d or
// 0x1a, the first video device at 0x01, ICH9 sound at 0x1b (qemuDomainValidateDevicePCISlotsQ35).
func (g *guest) integrateChipset() {
	slots := rootBusSlots(g.domain, g.devices)
	integrate := func(i, slot int) {
		if i >= 0 && g.devices[i].Address == nil && slots.isFree(slot) {
			slots.use(&domain.GuestAddress{Slot: slot}, false)
			g.how[i], g.devices[i].ChipsetSlot = Integrated, slot
		}
	}

	for i, d := range g.devices {
		if isUSB(d, "ich9-uhci1") {
			slot := 0x1d
			if !slots.isFree(slot) {
				slot = 0x1a
			}
			integrate(i, slot)
		}
	}

	integrate(PrimaryVideo(g.devices), 0x01)
	integrate(slices.IndexFunc(g.devices, func(d Device) bool {
		return d.Element == "sound" && d.Model == "ich9" && d.Address == nil
	}), 0x1b)
}

// PrimaryVideo returns the position of the video device that libvirt puts first: the one with
// primary='yes', else the first; -1 without any on PCI.
func PrimaryVideo(devices []Device) int {
	isVideo := func(d Device) bool { return d.Element == "video" }
	primary := slices.IndexFunc(devices, func(d Device) bool { return isVideo(d) && d.Primary })
	if primary < 0 {
		return slices.IndexFunc(devices, isVideo)
	}

	return primary
}

// joinUSB2 gives the parts of one USB 2 controller a single slot: that of a part that has one,
// else that of the first (IS_USB2_CONTROLLER in qemuDomainAssignDevicePCISlots).
func (g *guest) joinUSB2() {
	placed, first := map[string]bool{}, map[string]int{}
	for i, d := range g.devices {
		if !isUSB(d, "ich9-") {
			continue
		}

		if d.Address != nil || g.how[i] == Integrated {
			placed[d.Index] = true
		}

		if _, found := first[d.Index]; !found {
			first[d.Index] = i
		}
	}

	for i, d := range g.devices {
		if isUSB(d, "ich9-") && (placed[d.Index] || first[d.Index] != i) {
			g.how[i] = Integrated
		}
	}
}

func isUSB(d Device, model string) bool {
	return d.Element == "controller" && d.Type == "usb" && strings.HasPrefix(d.Model, model)
}
