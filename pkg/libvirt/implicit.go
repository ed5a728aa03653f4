package libvirt

import (
	"math"
	"strconv"
	"strings"

	"hook-sidecar/pkg/domain"
)

// addImplicit adds the devices that libvirt adds where the domain has none: those of the machine
// (src/qemu/qemu_domain.c, qemuDomainDefAddDefaultDevices), and those that others depend on
// (src/conf/domain_conf.c, virDomainDefAddImplicitControllers and …ImplicitVideo). Controllers come
// in libvirt's order.
func (g *collector) addImplicit() {
	has := g.inventory()

	if g.q35 && !g.indexes("usb")[0] {
		g.addController("usb", 0, Express)
	}

	g.addMissing("scsi", EitherWay, g.lastOfDrives("disk", "scsi", scsiDrives))
	g.addMissing("sata", Conventional, g.lastOfDrives("disk", "sata", sataDrives))
	g.addVirtioSerial()
	g.addMissing("scsi", EitherWay, g.lastOfDrives("hostdev", "scsi", scsiDrives))

	if !g.virt && !has["memballoon"] {
		g.add(domain.Device{Element: "memballoon"}, Express)
	}

	if has["graphics"] && !has["video"] {
		g.add(domain.Device{Element: "video"}, g.defaultModel())
	}
}

func (g *collector) addController(kind string, index int, how Connect) {
	g.add(domain.Device{Element: "controller", Type: kind, Index: strconv.Itoa(index)}, how)
}

// inventory returns the set of the domain's elements.
func (g *collector) inventory() map[string]bool {
	has := map[string]bool{}
	for _, d := range g.domain.Others {
		has[d.Element] = true
	}
	return has
}

// indexes returns the indexes of the controllers of a kind, those that libvirt adds included. One
// without an index has the lowest that is free (src/conf/domain_conf.c,
// virDomainAssignControllerIndexes).
func (g *collector) indexes(kind string) map[int]bool {
	taken, without := map[int]bool{}, 0
	count := func(d domain.Device) {
		switch index, err := strconv.Atoi(d.Index); {
		case d.Element != "controller" || d.Type != kind:
		case err != nil:
			without++
		default:
			taken[index] = true
		}
	}

	for _, d := range g.domain.Others {
		count(d)
	}

	for _, d := range g.devices[g.own:] {
		count(d.Device)
	}

	// Those without an index fill the gaps, after all that have one are known.
	for index := 0; without > 0; index++ {
		if !taken[index] {
			taken[index] = true
			without--
		}
	}

	return taken
}

// addMissing adds the controllers of a kind that are missing up to the last, which is -1 for none.
// The first SATA controller of q35 is the chipset's.
func (g *collector) addMissing(kind string, how Connect, last int) {
	present := g.indexes(kind)
	if kind == "sata" && g.q35 {
		present[0] = true
	}

	for index := range last + 1 {
		if !present[index] {
			g.addController(kind, index, how)
		}
	}
}

// addVirtioSerial adds the controllers that channels and consoles name, 0 where they name none
// (virDomainDefMaybeAddVirtioSerialController).
func (g *collector) addVirtioSerial() {
	for _, element := range []string{"channel", "console"} {
		for _, d := range g.domain.Others {
			if d.Element != element || d.TargetType != "virtio" {
				continue
			}

			index := 0
			if d.AddressController != nil {
				index = *d.AddressController
			}

			if !g.indexes("virtio-serial")[index] {
				g.addController("virtio-serial", index, Express)
			}
		}
	}
}

// Drives per controller, by the drives' names (libvirt src/conf/domain_conf.c,
// virDomainDiskDefAssignAddress; measured, libvirt 9).
const (
	scsiDrives = 7
	sataDrives = 6
)

// maxControllers limits what a drive's name can ask for; no domain has more.
const maxControllers = math.MaxUint8

// lastOfDrives returns the highest number of a controller that drives of an element and a bus are
// on, -1 without any (virDomainDefAddDiskControllersForType).
func (g *collector) lastOfDrives(element, kind string, drives int) int {
	last := -1
	for _, d := range g.domain.Others {
		isOne := element == "disk" && diskBus(d) == kind || element == "hostdev" && d.Type == kind
		if d.Element == element && isOne {
			last = max(last, min(controllerOf(d, drives), maxControllers-1))
		}
	}

	return last
}

// controllerOf returns the number of a drive's controller, by its address, else by its name.
func controllerOf(drive domain.Device, drives int) int {
	if drive.AddressController != nil {
		return *drive.AddressController
	}
	return DriveNumber(drive.TargetDev) / drives
}

// DriveNumber counts the names sda to sdz, sdaa and so on from 0, with any of libvirt's prefixes
// (src/util/virutil.c, virDiskNameParse). Any other name counts as the first.
func DriveNumber(name string) int {
	letters := ""
	for _, prefix := range []string{"fd", "hd", "vd", "sd", "xvd", "ubd"} {
		if rest, found := strings.CutPrefix(name, prefix); found {
			letters = rest
		}
	}

	// Letters are digits from 1 to 26, since after z comes aa.
	n := 0
	for _, letter := range letters {
		if letter < 'a' || letter > 'z' {
			return 0
		}
		n = min(26*n+1+int(letter-'a'), math.MaxUint16)
	}

	return max(0, n-1)
}
