package why

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"hook-sidecar/pkg/words/lazyregexp"
)

// The speakers whose word ends a start: what they say is told before what others make of it.
const (
	libvirt   = "libvirt"
	qemu      = "QEMU"
	nodes     = "the node's kernel"
	nodeKVM   = "KVM of the node's kernel"
	nodeVFIO  = "VFIO of the node's kernel"
	guests    = "the guest"
	kubelet   = "the kubelet"
	scheduler = "the scheduler"
)

// Who refuses an object at the API server (Kubernetes
// staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go,
// plugin/policy/validating/dispatcher.go and plugin/resourcequota/controller.go).
var (
	webhook   = lazyregexp.New(`admission webhook "([^"\s]+)" denied the request`)
	unreached = lazyregexp.New(`failed calling webhook "([^"\s]+)"`)
	policy    = lazyregexp.New(`ValidatingAdmissionPolicy '([^'\s]+)'`)
	quota     = lazyregexp.New(`exceeded quota: ([^,\s]+)`)
)

// admissions are the reasons with which the kubelet ends a pod that it does not admit, or does not
// keep (Kubernetes pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/admission/errors.go,
// pkg/kubelet/eviction/eviction_manager.go).
var admissions = lazyregexp.New(
	`^(?:UnexpectedAdmissionError|TopologyAffinityError|SMTAlignmentError|OutOf[\w./-]+|` +
		`NodeAffinity|NodePorts|NodeShutdown|PodOSNotSupported|InvalidNodeInfo|Evicted|Preempting)\b`)

// speaker returns who says a line of the message, by where it comes from and not by its words; ""
// if that is not known.
func (m message) speaker(line string) string {
	if f := webhook.FindStringSubmatch(line); f != nil {
		if strings.HasSuffix(f[1], ".kubevirt.io") {
			return "KubeVirt's webhook " + f[1]
		}
		return "the webhook " + f[1]
	}

	if f := unreached.FindStringSubmatch(line); f != nil {
		return "the API server, which does not reach the webhook " + f[1]
	}

	if f := policy.FindStringSubmatch(line); f != nil {
		return "the policy " + f[1]
	}

	if f := quota.FindStringSubmatch(line); f != nil {
		return "the quota " + f[1]
	}

	isOfLauncher := m.origin == "" || m.origin == "virt-launcher" || m.origin == "virt-handler"
	switch {
	case strings.Contains(line, "violates PodSecurity"):
		return "PodSecurity admission"
	case strings.Contains(line, " is forbidden: "):
		return "the API server's admission"
	case m.origin == guests || m.origin == nodes || m.origin == "the hook":
		return m.origin
	case m.heading == failedScheduling || strings.HasPrefix(m.source, "condition PodScheduled"):
		return scheduler
	case admissions.MatchString(m.heading) || admissions.MatchString(line) ||
		m.stage == StageContainer || m.stage == StageStop ||
		strings.Contains(line[:min(len(line), 80)], " kubelet["):
		return kubelet
	case strings.Contains(line, "Failed to call OnDefineDomain"):
		return "a hook"
	case isOfLauncher && (m.isQEMUs || strings.Contains(line, "qemu-kvm: ") ||
		strings.Contains(line, "qemu-system-")):
		return asked(line)
	case isOfLauncher && (m.isLibvirts || strings.Contains(line, "LibvirtError(") ||
		strings.Contains(line, "virError(")):
		return libvirt
	}

	return cmp.Or(m.origin, m.program)
}

// What QEMU asks the node's kernel, and passes on with the error's number or its words (QEMU
// accel/kvm/kvm-all.c, hw/vfio/container.c and hw/vfio/helpers.c).
var (
	askedKVM = lazyregexp.New(`\bKVM_[A-Z]\w+ failed|kvm run failed|` +
		`\bkvm_\w+: .*(?:: [A-Z][a-z ]+|\([A-Z][a-z ]+\))$`)
	askedVFIO = lazyregexp.New(`\bVFIO_[A-Z]\w+ failed|\bvfio_\w*dma_map\(.*\) = -\d+ `)
)

// asked returns who refuses what a line of QEMU says: KVM or VFIO, if QEMU passes on what these
// say.
func asked(line string) string {
	switch {
	case askedKVM.MatchString(line):
		return nodeKVM
	case askedVFIO.MatchString(line):
		return nodeVFIO
	}
	return qemu
}

// isLast reports whether a speaker's word ends a start, and is not made of another one's.
func isLast(speaker string) bool {
	switch speaker {
	case "", "virt-handler", "virt-launcher", "virt-controller", "virt-api":
		return false
	}
	return true
}

// kernelLine matches the beginning of a line of a kernel's log, as journald and syslog print it.
var kernelLine = lazyregexp.New(`^\S+ +\d* *[\d:.T+-]* ?\S+ kernel: `)

// isKernels reports whether a line is one of a kernel's log. dmesg prints it after the seconds
// since the boot or, with -T, a date; most lines need no expression.
func isKernels(line string) bool {
	if strings.HasPrefix(line, "<") { // the priority, as dmesg -r prints it
		_, line, _ = strings.Cut(line, ">")
	}

	if rest, isDmesgs := strings.CutPrefix(line, "["); isDmesgs {
		at, _, isCut := strings.Cut(rest, "] ")
		isSeconds := strings.Trim(at, " 0123456789") == "."
		return isCut && (isSeconds || len(at) == len(time.ANSIC) && !parseStamp(at).clock.IsZero())
	}

	return strings.Contains(line[:min(len(line), 80)], " kernel: ") && kernelLine.MatchString(line)
}

// bootLine begins a line that journalctl prints between two boots (systemd
// src/shared/logs-show.c); it was "-- Reboot --" before version 252.
func isBoot(line string) bool {
	return strings.HasPrefix(line, "-- Boot ") || strings.HasPrefix(line, "-- Reboot --")
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

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

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

func hasAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func hasAnySuffix(text string, ends ...string) bool {
	for _, end := range ends {
		if strings.HasSuffix(text, end) {
			return true
		}
	}
	return false
}

func hasAnyPrefix(text string, begins ...string) bool {
	for _, begin := range begins {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}
