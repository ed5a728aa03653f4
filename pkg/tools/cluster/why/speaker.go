package why

import (
	"cmp"
	"strings"

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

// failedScheduling is the reason of the events that the scheduler repeats until it finds a node.
const failedScheduling = "FailedScheduling"

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
