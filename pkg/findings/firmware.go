package findings

import (
	"fmt"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
)

// The numbers of ports with an I/O BAR, 4 KiB each, that have room in a firmware's I/O space. With
// more SeaBIOS stops silently (measured, 15 of 15). OVMF has 0x6000 to 0xffff after the root bus's
// own devices (edk2 OvmfPkg/Library/PlatformInitLib/Platform.c), and each device beyond loses all
// of its BARs.
const (
	seaBIOSPorts = 14
	ovmfPorts    = 9
)

// IOSpace has what the guest needs of its firmware's I/O space.
type IOSpace struct {
	Firmware string // "SeaBIOS" or "UEFI"
	Devices  int    // with an I/O BAR
	Ports    int    // that have such a device under them
	Room     int    // how many such ports the firmware has room for
}

// IOSpaceOf returns what the guest of a plan needs. On aarch64 there is no I/O space.
func IOSpaceOf(plan *placement.Plan) (space IOSpace, exists bool) {
	if plan.Domain().Arch == "aarch64" {
		return space, false
	}

	space = IOSpace{Firmware: "SeaBIOS", Room: seaBIOSPorts}
	if plan.Domain().UEFI {
		space.Firmware, space.Room = "UEFI", ovmfPorts
	}

	ports := map[topology.ID]bool{}
	for _, d := range plan.Devices {
		if d.ID.Kind() != topology.KindPCI || d.Function == nil || !d.Function.HasIO() {
			continue
		}

		space.Devices++
		switch n := plan.GuestTree.Node(d.ID); {
		case n == nil || n.Parent == nil || d.Address == nil:
			ports[d.ID] = true // it will have a port of its own
		case n.Parent.Kind != topology.Root:
			ports[n.Parent.ID] = true
		}
	}

	space.Ports = len(ports)
	return space, true
}

// ioSpace finds that the firmware has no room for all ports with an I/O BAR.
func ioSpace(plan *placement.Plan) []reasons.Finding {
	space, exists := IOSpaceOf(plan)
	if !exists || space.Ports <= space.Room {
		return nil
	}

	remedy := "" // of the kind
	switch {
	case plan.Domain().UEFI && space.Ports <= seaBIOSPorts:
		remedy = fmt.Sprintf("boot with SeaBIOS, which has room for %d", seaBIOSPorts)
	case plan.Domain().UEFI:
		remedy = "pass fewer of them through"
	}

	return withRemedy(remedy, "%d ports have a device with an I/O BAR under them and the domain "+
		"boots with %s, which has room for %d", space.Ports, space.Firmware, space.Room)
}

// maxHotplugSwitchPorts is how many downstream ports that can hotplug lose no device (measured
// with OVMF 2022.11: 12 lose none, 16 lose all).
const maxHotplugSwitchPorts = 12

// switchPortHotplug finds more hotpluggable ports of switches than OVMF bears.
func switchPortHotplug(plan *placement.Plan) []reasons.Finding {
	open := topology.CountFunc(plan.Domain().Controllers, func(c domain.Controller) bool {
		return c.Model == domain.DownstreamPort && !c.HotplugOff
	})
	if !plan.Domain().UEFI || open <= maxHotplugSwitchPorts {
		return nil
	}

	return one("%d switch ports stay hotpluggable, and UEFI may end without a BAR for the devices "+
		"under them", open)
}

// launchSecurity finds a confidential guest.
func launchSecurity(plan *placement.Plan) []reasons.Finding {
	if !plan.Domain().LaunchSecurity {
		return nil
	}
	return one("the domain has launchSecurity")
}
