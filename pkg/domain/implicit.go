package domain

import (
	"math"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// implicit adds the devices that libvirt adds where the domain has none: those
// of the machine (libvirt src/qemu/qemu_domain.c,
// qemuDomainDefAddDefaultDevices), and what other devices depend on
// (src/conf/domain_conf.c, virDomainDefAddImplicitControllers and
// …ImplicitVideo).
func (r *reader) implicit() {
	q35, virt := isQ35(r.domain.Machine), isVirt(r.domain.Machine)
	has := r.inventory()
	missing := func(kind string) bool { return !has["controller "+kind] }
	if q35 && missing("usb") {
		r.add(Device{Element: "controller", Type: "usb"}, nil, express)
	}
	for range r.missingControllers("scsi", scsiDrives) {
		r.add(Device{Element: "controller", Type: "scsi"}, nil, express)
	}
	if missing("virtio-serial") && (has["channel virtio"] || has["console virtio"]) {
		r.add(Device{Element: "controller", Type: "virtio-serial"}, nil, express)
	}
	sata := r.missingControllers("sata", sataDrives)
	if q35 && missing("sata") {
		sata-- // the first one is the chipset's
	}
	for range sata {
		r.add(Device{Element: "controller", Type: "sata"}, nil, conventional)
	}
	if !virt && !has["memballoon"] {
		r.add(Device{Element: "memballoon"}, nil, express)
	}
	if has["graphics"] && !has["video"] {
		r.add(Device{Element: "video"}, nil, defaultModel(q35))
	}
}

// How many drives libvirt gives a controller, by the drives' names (libvirt
// src/conf/domain_conf.c, virDomainDiskDefAssignAddress; measured, libvirt 9).
const (
	scsiDrives = 7
	sataDrives = 6
)

// missingControllers is how many controllers of a kind libvirt adds: as many as
// the drive with the highest number needs (virDomainDefAddDiskControllersForType).
func (r *reader) missingControllers(kind string, drives int) int {
	needed, present := 0, 0
	for e := range r.each() {
		switch {
		case e.Local == "controller" && e.Value("type") == kind:
			present++
		case e.Local == "disk" && diskBus(e.Child("target")) == kind, e.Local == "hostdev" && e.Value("type") == kind:
			needed = max(needed, 1+controllerOf(e, drives))
		}
	}
	return max(0, min(needed, math.MaxUint8)-present)
}

// controllerOf is the number of the controller that a drive is on: what its
// address says, else what follows from its name.
func controllerOf(drive *xmledit.Element, drives int) int {
	if address := drive.Child("address"); address != nil {
		n, _ := number(address.Value("controller"), 10)
		return int(min(n, math.MaxUint8))
	}
	return driveNumber(drive.Child("target").Value("dev")) / drives
}

// driveNumber counts the names sda to sdz, sdaa and so on from 0, as those with
// another prefix of libvirt's (src/util/virutil.c, virDiskNameParse). Any other
// name counts as the first.
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

// inventory names what the domain has: elements, and kinds of some elements.
func (r *reader) inventory() map[string]bool {
	has := map[string]bool{}
	for e := range r.each() {
		has[e.Local] = true
		switch e.Local {
		case "controller", "hostdev":
			has[e.Local+" "+e.Value("type")] = true
		case "disk":
			has["disk "+diskBus(e.Child("target"))] = true
		case "channel", "console":
			has[e.Local+" "+e.Child("target").Value("type")] = true
		}
	}
	return has
}
