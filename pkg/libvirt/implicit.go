package libvirt

import (
	"math"
	"strings"

	"hook-sidecar/pkg/domain"
)

// addImplicit adds the devices that libvirt adds where the domain has none: those of the machine
// (src/qemu/qemu_domain.c, qemuDomainDefAddDefaultDevices), and those that others depend on
// (src/conf/domain_conf.c, virDomainDefAddImplicitControllers and …ImplicitVideo).
func (g *guest) addImplicit() {
	has := g.inventory()
	if g.q35 && !has["controller usb"] {
		g.addController("usb", express)
	}
	for range g.missingControllers("scsi", scsiDrives) {
		g.addController("scsi", eitherWay)
	}
	if !has["controller virtio-serial"] && (has["channel virtio"] || has["console virtio"]) {
		g.addController("virtio-serial", express)
	}
	sata := g.missingControllers("sata", sataDrives)
	if g.q35 && !has["controller sata"] {
		sata-- // the first one is the chipset's
	}
	for range sata {
		g.addController("sata", conventional)
	}
	if !g.virt && !has["memballoon"] {
		g.add(domain.Device{Element: "memballoon"}, express)
	}
	if has["graphics"] && !has["video"] {
		g.add(domain.Device{Element: "video"}, g.defaultModel())
	}
}

func (g *guest) addController(kind string, how connect) {
	g.add(domain.Device{Element: "controller", Type: kind}, how)
}

// inventory is the set of the domain's elements, and of kinds of some.
func (g *guest) inventory() map[string]bool {
	has := map[string]bool{}
	for _, d := range g.domain.Others {
		has[d.Element] = true
		switch d.Element {
		case "controller":
			has["controller "+d.Type] = true
		case "channel", "console":
			has[d.Element+" "+d.TargetType] = true
		}
	}
	return has
}

// Drives per controller, by the drives' names (libvirt src/conf/domain_conf.c,
// virDomainDiskDefAssignAddress; measured, libvirt 9).
const (
	scsiDrives = 7
	sataDrives = 6
)

// missingControllers counts the controllers of a kind that libvirt adds for the drive with the
// highest number (virDomainDefAddDiskControllersForType).
func (g *guest) missingControllers(kind string, drives int) int {
	needed, present := 0, 0
	for _, d := range g.domain.Others {
		switch {
		case d.Element == "controller" && d.Type == kind:
			present++
		case d.Element == "disk" && diskBus(d) == kind, d.Element == "hostdev" && d.Type == kind:
			needed = max(needed, 1+controllerOf(d, drives))
		}
	}
	return max(0, min(needed, math.MaxUint8)-present)
}

// controllerOf returns the number of a drive's controller, by its address, else by its name.
func controllerOf(drive domain.Device, drives int) int {
	if drive.AddressController != nil {
		return *drive.AddressController
	}
	return driveNumber(drive.TargetDev) / drives
}

// driveNumber counts the names sda to sdz, sdaa and so on from 0, with any of libvirt's prefixes
// (src/util/virutil.c, virDiskNameParse). Any other name counts as the first.
func driveNumber(name string) int {
	letters := ""
	for _, prefix := range []string{"fd", "hd", "vd", "sd", "xvd", "ubd"} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			letters = rest
		}
	}
	n := 0
	for _, letter := range letters {
		if letter < 'a' || letter > 'z' {
			return 0
		}
		n = min(26*n+1+int(letter-'a'), math.MaxUint16)
	}
	return max(0, n-1)
}
