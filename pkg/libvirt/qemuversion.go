package libvirt

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// The first releases of RHEL whose machines are of QEMU 9.0, 9.2 and 10.0. qemu-kvm is 9.0 in 9.5,
// 9.1 in 9.6 and 10.0, and 10.1 in 9.8 and 10.2; RHEL makes a machine every second release.
var rhelReleases = []struct{ qemu, since9, since10 string }{
	{"9.0", "9.5", "10.0"},
	{"9.2", "9.7", "10.1"},
	{"10.0", "9.7", "10.1"},
}

// IsOlderThan reports whether the machine may run on a QEMU older than qemu, such as "10.0".
// "pc-q35-9.2" is of QEMU 9.2, "pc-q35-rhel9.6.0" of the one in RHEL 9.6. A plain "q35" or "virt",
// which libvirt replaces by its QEMU's newest, says nothing; any other version that is not a number,
// such as Ubuntu's "pc-q35-noble", counts as older.
func IsOlderThan(machine, qemu string) bool {
	name, isVersioned := versionOf(machine)
	if !isVersioned {
		return false
	}

	release, isRHEL := strings.CutPrefix(name, "rhel")
	found, err := version.ParseGeneric(release)
	if err != nil {
		return true
	}
	if !isRHEL {
		return found.LessThan(version.MustParseGeneric(qemu))
	}

	// Two releases of RHEL are current at a time, and each has QEMU's versions at its own pace.
	for _, r := range rhelReleases {
		since := r.since10
		if found.Major() <= 9 {
			since = r.since9
		}
		if r.qemu == qemu {
			return found.LessThan(version.MustParseGeneric(since))
		}
	}

	return true
}

// versionOf returns the version that a machine's name has.
func versionOf(machine string) (name string, isVersioned bool) {
	if name, isVersioned = strings.CutPrefix(machine, "pc-q35-"); isVersioned {
		return name, true
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

// HasSwitchPortLinks reports whether every QEMU that a machine's version allows has switch ports
// whose link can be set.
func HasSwitchPortLinks(machine string) bool { return !IsOlderThan(machine, sinceSwitchPortLinks) }
