package libvirt

import (
	"strconv"
	"strings"
)

// qemuVersion is a version of QEMU: major and minor.
type qemuVersion struct{ major, minor int }

func (v qemuVersion) less(w qemuVersion) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

// The first releases of RHEL whose machines are of QEMU 9.0, 9.2 and 10.0. qemu-kvm is 9.0 in 9.5,
// 9.1 in 9.6 and 10.0, and 10.1 in 9.8 and 10.2; RHEL makes a machine every second release.
var rhelReleases = []struct{ qemu, since9, since10 qemuVersion }{
	{qemuVersion{9, 0}, qemuVersion{9, 5}, qemuVersion{10, 0}},
	{qemuVersion{9, 2}, qemuVersion{9, 7}, qemuVersion{10, 1}},
	{qemuVersion{10, 0}, qemuVersion{9, 7}, qemuVersion{10, 1}},
}

// IsOlderThan reports whether the machine may run on a QEMU older than qemu, such as "10.0".
// "pc-q35-9.2" is of QEMU 9.2, "pc-q35-rhel9.6.0" of the one in RHEL 9.6. A plain "q35" or "virt",
// which libvirt replaces by its QEMU's newest, says nothing; any other version that is not a number,
// such as Ubuntu's "pc-q35-noble", counts as older.
func IsOlderThan(machine, qemu string) bool {
	version, isVersioned := versionOf(machine)
	if !isVersioned {
		return false
	}

	wanted, _ := parseVersion(qemu)
	release, isRHEL := strings.CutPrefix(version, "rhel")
	found, isNumber := parseVersion(release)
	if !isNumber {
		return true
	}
	if !isRHEL {
		return found.less(wanted)
	}

	for _, r := range rhelReleases {
		if r.qemu != wanted {
			continue
		}
		if found.major <= r.since9.major {
			return found.less(r.since9)
		}
		return found.less(r.since10)
	}

	return true
}

// versionOf returns the version that a machine's name has.
func versionOf(machine string) (version string, isVersioned bool) {
	if version, isVersioned = strings.CutPrefix(machine, "pc-q35-"); isVersioned {
		return version, true
	}
	return strings.CutPrefix(machine, "virt-")
}

// IsVersioned reports whether a machine's name has a version, and is not a plain "q35" or "virt".
func IsVersioned(machine string) bool {
	_, isVersioned := versionOf(machine)
	return isVersioned
}

// IsVersionOf reports whether libvirt may have replaced short, such as "q35", by machine, such as
// "pc-q35-9.2" (src/qemu/qemu_capabilities.c, virQEMUCapsGetCanonicalMachine).
func IsVersionOf(machine, short string) bool {
	return IsVersioned(machine) &&
		(short == "q35" && IsQ35(machine) || short == "virt" && isVirt(machine))
}

// parseVersion reads the first two numbers of a version: "9.6.0".
func parseVersion(s string) (v qemuVersion, isNumber bool) {
	parts := strings.Split(s, ".")
	if len(parts) < 2 {
		return v, false
	}

	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return v, false
	}

	minor, err := strconv.Atoi(parts[1])
	return qemuVersion{major, minor}, err == nil
}

// HasSwitchPortLinks reports whether every QEMU that a machine's version allows has switch ports
// whose link can be set.
func HasSwitchPortLinks(machine string) bool { return !IsOlderThan(machine, sinceSwitchPortLinks) }
