package domain

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
	if missing("scsi") && (has["disk scsi"] || has["hostdev scsi"]) {
		r.add(Device{Element: "controller", Type: "scsi"}, nil, express)
	}
	if missing("virtio-serial") && (has["channel virtio"] || has["console virtio"]) {
		r.add(Device{Element: "controller", Type: "virtio-serial"}, nil, express)
	}
	if !q35 && missing("sata") && has["disk sata"] {
		r.add(Device{Element: "controller", Type: "sata"}, nil, conventional)
	}
	if !virt && !has["memballoon"] {
		r.add(Device{Element: "memballoon"}, nil, express)
	}
	if has["graphics"] && !has["video"] {
		r.add(Device{Element: "video"}, nil, defaultModel(q35))
	}
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
