package why

import (
	"slices"
	"strings"
	"sync"
)

// isFailure reports whether a line that is not JSON reports a failure.
func isFailure(line string) bool {
	if isErrorText(line) {
		return true
	}

	if said := level(line); said != "" {
		return hasAnyPrefix(said, "e", "f", "panic", "crit")
	}

	return looksFailed(line)
}

// isErrorText reports whether a line that is not JSON is an error: of QEMU, or one that says so.
func isErrorText(line string) bool {
	if strings.Contains(line, "qemu-kvm: ") || strings.Contains(line, "qemu-system-") {
		return true
	}

	return firstWord(line, "panic", "fatal", "error") != ""
}

// level returns the level that a line of a program says, in lower case: klog's letter
// (k8s.io/klog), or logfmt's word; "" if it says none.
func level(line string) string {
	if len(line) > 5 && strings.ContainsRune("IWEF", rune(line[0])) && isDigit(line[1]) &&
		isDigit(line[2]) && isDigit(line[3]) && isDigit(line[4]) && line[5] == ' ' {
		return strings.ToLower(line[:1])
	}

	_, word, isLogfmt := strings.Cut(line, "level=")
	if !isLogfmt {
		return firstWord(line, "notice", "info", "debug", "trace")
	}

	return strings.ToLower(strings.TrimLeft(word[:min(len(word), 6)], `"`))
}

// firstWord returns the first word of a line, after its time, if it is one of some.
func firstWord(line string, words ...string) string {
	line = strings.TrimPrefix(line, stamp.FindString(line))
	isOther := func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') }
	line = strings.TrimLeftFunc(line, isOther)
	if end := strings.IndexFunc(line, isOther); end > 0 {
		line = line[:end]
	}

	at := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(line, word) })
	if at < 0 {
		return ""
	}

	return words[at]
}

// looksFailed reports whether a line of a program that says no level reports a failure, as nothing
// in a healthy guest or node does.
func looksFailed(line string) bool {
	lower := strings.ToLower(line)
	if !failureWords().isIn(lower) {
		return false
	}

	isZero := hasAnySuffix(strings.TrimSpace(lower),
		": 0", ": no", ": n/a", ": none", ": disabled", ": false", ": not active", " 0")
	return !isZero && !hasAny(lower, harmlessFailures)
}

// failureWords are in lines of programs that say no level, if they report a failure.
var failureWords = sync.OnceValue(func() *heads {
	return newHeads(
		"error", "fail", "fatal", "panic", "cannot ", "can't ", "could not ", "couldn't ", "unable to",
		"not able to", "denied", "refus", "timed out", "timeout", "giving up", "not found", "no such ",
		"invalid", "not permitted", "not allowed", "aborting", "stuck", "unknown chipset", "mismatch",
		"fallen off", "no space", "not respond", "unrecoverable", "incompatible", "out of memory",
		"unexpected", "blocked for more than", "not enough",
	)
})

// harmlessFailures are parts of lines of guests and nodes that are well, in lower case: what
// firmware lacks, windows for I/O ports that no device uses, headings of tables, and counts of
// zero.
var harmlessFailures = []string{
	"acpi", "firmware bug", "microcode", "spectre", "mitigation", "i/o error, dev fd", "i/o error, dev sr", "i/o error on dev sr", "i/o port", "i/o window",
	"i/o apic", "ioapic", "[io ", "pmd_set_huge",
	"regulatory", "module verification failed", "error reporting", "aer: enabled",
	"severity=corrected", "severity=correctable", "corrected error", "no error", "0 error",
	"errors=", "error recovery", "edac", "i8042", "piix4", "bluetooth", "uncorr. ecc", "ecc error",
	"hiding ecap", "[12] timeout", "tpm", "rtc_cmos", "tsc:", "watchdog", "apparmor", "invalid rom contents",
	"rom header", "fail-safe", "failsafe", "link down", "gpio", "systemd", "erst:", "hest:",
	"ghes:", "integrity:", "x.509", "aer: correctable", "error status/mask", ", continuing",
	"bar 13: ", "nvassert",
}

// isHarmless reports whether healthy VMs have an error, too.
func isHarmless(line string) bool {
	return hasAny(line, harmless)
}

// harmless are parts of errors in logs of VMs that are well: KubeVirt's tests allow them
// (kubevirt/kubevirt tests/vmlogchecker/allowlist.go), and of /dev/kvm the owner changes after
// libvirt looks for it (kubevirt/kubevirt issue 16369).
var harmless = []string{
	"/dev/kvm: ", "/dev/vhost-vsock", "dmidecode", "At least one cgroup controller is required",
	" bus connection: ", "DBus system bus", "Cannot probe for supported suspend types",
	"Failed to open config space file",
	"uest agent", "QEMU agent", "guest info failed", "End of file from agent socket",
	"agent=remoteDispatch", "agent=qemuDispatch",
	"Unable to read from monitor", "Unable to write to monitor", "Missing monitor reply object",
	"End of file while reading data", "client socket is closed", "Connection to libvirt lost",
	"Cannot write data: Broken pipe", "Error updating cache",
	"migration statistics are available only", "backend-storage-meta/migrated",
	"Failed to get block info", "Break reap loop", "Error detecting pid", "virt-serial0-log",
	"failed to read libvirt logs", "failed to read qemu log directory", "domain notify event",
	"notify domain event", ": warning: ", "the object has been modified",
}

// isHint reports whether a line, not of an error, says that there are no devices to offer.
func isHint(line string) bool { return hints().isIn(strings.ToLower(line)) }

// hints are in lines of device plugins and validators that say at level info that they have no device.
var hints = sync.OnceValue(func() *heads {
	return newHeads(
		"no devices", "no device ", "no vgpu devices", "no gpus found", "devices found: 0",
		"is not present, the device plugin can't expose it", "not supported by cpu", "disabled by bios",
		"no hardware support", "not enabled (by bios)",
	)
})
