package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/tools/cluster/provider"
)

// What makes or offers the devices of a VM that waits for a node: pods of device plugins, of drivers
// and of their operators, by their state, their logs and their events.

// addNodeNetworks adds what a SriovNetworkNodeState says that failed, and the numbers of virtual
// functions.
func (e *Evidence) addNodeNetworks(o object, data []byte) {
	var s struct {
		Status struct {
			SyncStatus, LastSyncError string
			Interfaces                []struct {
				VFs []struct {
					PCIAddress string
					VFID       int `json:"vfID"`
				} `json:"Vfs"`
			}
		}
	}
	json.Unmarshal(data, &s) // goes on after a field of a wrong type
	for _, nic := range s.Status.Interfaces {
		for _, vf := range nic.VFs {
			if e.numbers == nil {
				e.numbers = map[string]string{}
			}
			if e.Node == "" || e.Node == o.Name {
				e.numbers[strings.ToLower(vf.PCIAddress)] = strconv.Itoa(vf.VFID)
			}
		}
	}

	if s.Status.SyncStatus == "Failed" || s.Status.LastSyncError != "" {
		e.networks = append(e.networks, nodeNetworks{o.Name, cmp.Or(s.Status.LastSyncError,
			s.Status.SyncStatus)})
	}
}

// ProviderLogs returns the logs of pods that should offer what the VM waits for: those of virt-handler
// and of device plugins, drivers and their operators, on nodes that do not offer it.
func (e *Evidence) ProviderLogs() (all []Log) {
	names := lacking(e.waitsFor())
	for _, pod := range e.pods {
		if pod.Spec.NodeName == "" || !e.isHandlerOf(pod, names) && !e.isProviderOf(pod, names) {
			continue
		}
		status := pod.Status
		for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
			if c.State.Running != nil {
				all = append(all, Log{pod.Namespace, pod.Name, c.Name, false})
			}
			if c.LastTerminationState.Terminated != nil {
				all = append(all, Log{pod.Namespace, pod.Name, c.Name, true})
			}
		}
	}

	return all
}

// isHandlerOf reports whether a pod is virt-handler of the VM's node or, for a VM that waits, of a
// node where it should offer one of the resources and does not.
func (e *Evidence) isHandlerOf(pod object, names []corev1.ResourceName) bool {
	if !isHandler(pod) {
		return false
	}
	if e.Node != "" {
		return pod.Spec.NodeName == e.Node
	}

	return slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		return !e.permitted.isExternal(name) && !e.isOffered(name, pod.Spec.NodeName)
	})
}

// isHandler reports whether a pod is virt-handler.
func isHandler(pod object) bool { return strings.HasPrefix(pod.Name, "virt-handler") }

// isProviderOf reports whether a pod makes or offers devices of one of the resources, or of claims, on a
// node that offers none of them. The pod's name has the vendor's name, or says that it is for NICs or
// GPUs.
func (e *Evidence) isProviderOf(pod object, names []corev1.ResourceName) bool {
	if !provider.Is(&corev1.Pod{ObjectMeta: pod.ObjectMeta,
		Spec: corev1.PodSpec{Containers: pod.Spec.Containers}}) {
		return false
	}

	name := strings.ToLower(pod.Namespace + "/" + pod.Name)
	if e.claims {
		return hasAny(name, []string{"kubelet-plugin", "dra-driver", "dra-plugin"})
	}

	return slices.ContainsFunc(names, func(n corev1.ResourceName) bool {
		vendor, _, _ := strings.Cut(string(n), ".")
		isOfNICs := hasAny(name, []string{"sriov", "rdma", "network-operator"})
		isOfVendor := strings.Contains(name, vendor) ||
			hasAny(name, []string{"gpu", "vfio", "pcidevices"})
		isForNIC := hasAny(strings.ToLower(string(n)),
			[]string{"sriov", "rdma", "_vf", "-vf", "cx", "mlx", "nic", "mellanox", "ice", "iavf"})
		return isOfNICs == isForNIC && (isOfVendor || isOfNICs) && !e.isOffered(n, pod.Spec.NodeName)
	})
}

// HasNodeNetworks reports whether a pod of the SR-IOV operator was read, which has its own state of each
// node.
func (e *Evidence) HasNodeNetworks() bool {
	return slices.ContainsFunc(e.pods, func(pod object) bool {
		return strings.HasPrefix(pod.Name, "sriov-network-config-daemon")
	})
}

// addPod adds that a pod does not run without which its node offers no devices.
func (e *Evidence) addPod(pod object) {
	program := "what offers or makes devices"
	if isHandler(pod) {
		program = "virt-handler"
	}

	if text := e.trouble(pod); text != "" {
		e.addFact(StageSchedule, fmt.Sprintf("%s does not run on node %s: %s", program,
			pod.Spec.NodeName, text))
	}
}

// addFailedSets adds that no pod can be made of a DaemonSet that offers devices.
func (e *Evidence) addFailedSets() {
	for _, w := range e.warnings {
		isSet := w.about.Kind == "DaemonSet" && strings.HasPrefix(w.text, "FailedCreate: ")
		if isSet && provider.IsNamed(w.about.Namespace+"/"+w.about.Name) {
			e.addFact(StageSchedule, fmt.Sprintf("what offers or makes devices does not run: "+
				"daemonset %s/%s has no pod: %s", w.about.Namespace, w.about.Name, w.text))
		}
	}
}

// providerFails begins the fact of a failure of what makes or offers the devices.
const providerFails = "what makes or offers devices"

// addFailures adds the failures that programs report which make or offer the devices that the VM waits
// for, where no pattern knows them: of each log the first line of its last failure.
func (e *Evidence) addFailures(names []corev1.ResourceName) {
	for _, s := range e.networks {
		e.addFact(StageSchedule, fmt.Sprintf("%s on node %s reports: SriovNetworkNodeState: %s",
			providerFails, s.node, s.failure))
	}

	all := e.inOrder()
	slices.SortStableFunc(all, func(x, y entry) int { return cmp.Compare(x.number, y.number) })
	last := map[string]entry{} // by log
	for _, n := range all {
		rank := e.rankOf(n, names)
		if rank == 0 || !e.lacksOn(e.nodeOf(n), names) {
			continue
		}

		before, isThere := last[n.kind()]
		isFirst := isThere && e.rankOf(before, names) == rank &&
			(n.isNear(before) || before.number+3 > n.number && n.isTimeless())
		if !isThere || e.rankOf(before, names) <= rank && !isFirst {
			last[n.kind()] = n
		}
	}

	for _, n := range last {
		on := ""
		if node := e.nodeOf(n); node != "" {
			on = " on node " + node
		}

		e.add(message{
			source: n.source, stage: StageSchedule, isState: true, at: n.at, origin: n.origin,
			program: n.program, subject: n.subject,
			text: providerFails + on + " reports: " + n.plainLine(),
		})
	}
}

// lacksOn reports whether a node, or all if it is "", does not offer one of the resources, or devices for
// claims: what a program reports whose devices are only all in use keeps no VM waiting.
func (e *Evidence) lacksOn(node string, names []corev1.ResourceName) bool {
	if e.claims {
		return e.slices != nil && !e.slices[node]
	}

	return len(e.nodes) == 0 || slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		return !e.isOffered(name, node)
	})
}

// addSlice adds that a DRA driver offers devices of a node.
func (e *Evidence) addSlice(data []byte) {
	var o struct {
		Spec struct{ NodeName string }
	}
	json.Unmarshal(data, &o) // goes on after a field of a wrong type
	e.slices[o.Spec.NodeName] = true
}

// isTimeless reports whether a line has no time of its own.
func (n entry) isTimeless() bool { return n.stamp().clock.IsZero() && n.at.IsZero() }

// rankOf returns how likely a line says why a node does not offer what the VM waits for: more if it
// names a device, 0 if it does not say so.
func (e *Evidence) rankOf(n entry, names []corev1.ResourceName) int {
	rank := 2 * e.kindOf(n, names)
	if rank > 0 && device(n.plainLine()) != "" {
		rank++
	}
	return rank
}

// kindOf returns 3 for a line that names a resource that the VM waits for, 2 for one of a pod that makes
// or offers devices, or virt-handler's about these, and 1 for one of a node's kernel or of a loose log
// about a device's driver; 0 if it is none of these.
func (e *Evidence) kindOf(n entry, names []corev1.ResourceName) int {
	if !n.isLog || n.cause != nil || n.passed != "" || n.stage == StageGuest || isPrivate(n) ||
		n.origin == "virt-launcher" || n.origin == "the hook" || n.origin == "virt-controller" {
		return 0
	}

	line := n.plainLine()
	lower := strings.ToLower(line)
	isOfDevices := hasAny(lower, deviceWords)
	switch {
	case slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		vendor, own, _ := strings.Cut(string(name), "/")
		isKubeVirts := vendor == "devices.kubevirt.io" &&
			(strings.Contains(line, "/dev/"+own) || strings.Contains(line, own+"_") || strings.Contains(line, own+": "))
		return isKubeVirts || namesResource(line, string(name)) || namesResource(line, own)
	}):
		return 3
	case !n.isError:
		return 0
	case n.origin == "virt-handler" && n.stage == StageSchedule:
		return 2
	case strings.HasPrefix(n.source, "log of ") && n.origin != "virt-handler":
		return 2
	case n.origin == nodes && device(line) != "" && hasAny(lower, []string{"sr-iov", "vfs", "vfio",
		"mdev", "vgpu"}):
		return 1
	case n.origin != nodes && n.origin != "virt-handler" && isOfDevices:
		return 1
	}

	return 0
}

// deviceWords are in lines about passthrough devices and what makes them, in lower case.
var deviceWords = []string{
	"vfio", "vgpu", "mdev", "mediated", "sr-iov", "sriov", "numvfs", "eswitch", "gpu", "nvidia",
	"amdgpu", "device plugin", "device-plugin", "pci device", "0000:",
}

// namesResource reports whether a line has a resource's name, or its part after the vendor, as a word.
func namesResource(line, name string) bool {
	if len(name) < 4 {
		return false
	}

	isPart := func(c byte) bool {
		return c == '_' || c == '-' || c == '.' || isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	for at := 0; ; {
		i := strings.Index(line[at:], name)
		if i < 0 {
			return false
		}

		start, end := at+i, at+i+len(name)
		isWhole := (start == 0 || !isPart(line[start-1])) && (end == len(line) || !isPart(line[end]))
		if isWhole {
			return true
		}

		at = end
	}
}
