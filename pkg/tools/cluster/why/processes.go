package why

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/cluster/provider"
	"hook-sidecar/pkg/words/lazyregexp"
)

// podsNamed is the pod that a line of the kubelet or of containerd is about (k8s.io/klog's structured
// logging, as the kubelet has it; containerd internal/cri/server/sandbox_run.go).
var podsNamed = lazyregexp.New(`\bpods?=\[?"([a-z0-9-]+)/([a-z0-9.-]+)"|` +
	`PodSandboxMetadata\{Name:([^,]+),Uid:[^,]*,Namespace:([^,]+)`)

// isAboutOtherPod reports whether a line of a node's program is about a pod that has nothing to do with
// the VM: not its own, none of KubeVirt's, and none that makes or offers devices.
func (e *Evidence) isAboutOtherPod(line string) bool {
	f := podsNamed.FindStringSubmatch(line)
	if f == nil || e.isNamedIn(line) {
		return false
	}

	namespace, name := cmp.Or(f[1], f[4]), cmp.Or(f[2], f[3])
	isOurs := strings.HasPrefix(name, "virt-") && !strings.HasPrefix(name, launcherPrefix)
	isAgent := slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(agents))...),
		func(part string) bool { return strings.Contains(name, part) })
	return !isOurs && !isAgent && !e.isOwn("Pod", namespace, name) &&
		!provider.IsNamed(namespace+"/"+name)
}

// agents are parts of the names of the pods that the kubelet calls on a node, by what it could not
// do: those of storage drivers, of network plugins and of DRA drivers.
var agents = map[string][]string{
	"volume-not-mounted": {"csi"}, "volume-not-detached": {"csi"},
	"network-not-attached": cniPods, "network-not-detached": cniPods,
	"claim-not-prepared": {"dra", "kubelet-plugin"}, "claim-timeout": {"dra", "kubelet-plugin"},
}

var cniPods = []string{
	"multus", "calico", "cilium", "flannel", "ovn", "sriov", "whereabouts", "antrea", "kube-router",
	"weave", "canal", "cni", "network-operator", "sdn",
}

// Whose process the node's kernel ended for lack of memory: it names the control group of the
// process, which has the UID of the pod, in the line before the one that says that it was killed
// (Linux mm/oom_kill.c, dump_oom_summary and __oom_kill_process; Kubernetes
// pkg/kubelet/cm/pod_container_manager_linux.go).
var (
	groupOfProcess = lazyregexp.New(`\btask_memcg=\S*?pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})\S*,pid=(\d+)`)
	killed         = lazyregexp.New(`\bKill(?:ed)? process (\d+)`)
)

// addProcess notes the pod of a process that a line of the node's kernel names.
func (e *Evidence) addProcess(line string) {
	if !strings.Contains(line, "task_memcg=") {
		return
	}

	f := groupOfProcess.FindStringSubmatch(line)
	if f == nil {
		return
	}
	if e.podOf == nil {
		e.podOf = map[string]string{}
	}
	e.podOf[f[2]] = strings.ReplaceAll(f[1], "_", "-")
}

// isOfOtherPod reports whether a line is about a process that the node's kernel ended in another
// pod than the VM's, whose UID is known.
func (e *Evidence) isOfOtherPod(line string) bool {
	f := killed.FindStringSubmatch(line)
	if f == nil || e.podOf[f[1]] == "" {
		return false
	}

	isOwn := func(pod object) bool { return pod.UID != "" && e.isOwn("Pod", pod.Namespace, pod.Name) }
	isKilled := func(pod object) bool { return isOwn(pod) && string(pod.UID) == e.podOf[f[1]] }
	return slices.ContainsFunc(e.pods, isOwn) && !slices.ContainsFunc(e.pods, isKilled)
}

// addSplitLock notes that the kernel of a node says that a guest took a split lock, for which it slows
// the guest down (Linux arch/x86/kernel/cpu/bus_lock.c, split_lock_warn). It names a thread of QEMU,
// which no object or log of a VM does.
func (e *Evidence) addSplitLock(m message) {
	if !strings.Contains(m.text, " took a split_lock trap at ") || !strings.Contains(m.text, "/KVM/") {
		return
	}
	if e.splitLocks == nil {
		e.splitLocks = map[string]bool{}
	}
	e.splitLocks[m.host] = true
}

// hasSplitLocks reports whether a guest on the VM's node takes split locks.
func (e *Evidence) hasSplitLocks() bool {
	for host := range e.splitLocks {
		if !e.isOnOtherNode(entry{message: message{host: host}}) {
			return true
		}
	}
	return false
}
