package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Facts are what objects of the cluster say together and none says alone. Each becomes a line like
// those of logs, and the table says what it means.

// addFacts adds the facts about a VM: for one that waits what keeps nodes from offering what it
// asks for, for one that starts what does not run on its node, for one that runs what it lacks.
func (e *Evidence) addFacts() {
	e.addMissing()
	e.addNodeState()
	e.addFinalizers()
	e.addMigrations()
	if e.Phase == "Running" || e.Phase == "Succeeded" || e.State().onPurpose {
		return
	}

	message := e.waitsFor()
	names := lacking(message)
	e.addRefusers()
	e.addAgents()
	if e.Node == "" {
		e.addVolumes(message)
	}

	e.claims = strings.Contains(message, "cannot allocate all claims")
	if e.Node == "" && message == "" {
		return
	}

	for _, pod := range e.pods {
		if pod.Kind == "Pod" && (e.isHandlerOf(pod, names) || e.isProviderOf(pod, names)) {
			e.addPod(pod)
		}
	}

	for _, name := range names {
		e.addOffers(name)
		e.addSelectors(name)
	}

	if len(names) > 0 {
		e.addOperators()
	}

	if len(names) > 0 || e.claims {
		e.addFailedSets()
		e.addFailures(names)
	}

	if strings.Contains(message, "node affinity/selector") {
		e.addHeartbeats()
	}
	if message != "" {
		e.addAbsent(names)
	}
}

// addNodeState adds that the VM's node does not answer.
func (e *Evidence) addNodeState() {
	for _, node := range e.nodes {
		for _, c := range node.Status.Conditions {
			isReady := string(c.Type) == string(corev1.NodeReady)
			if node.Name == e.Node && isReady && c.Status != corev1.ConditionTrue {
				e.addFact(StageNode, fmt.Sprintf("the node %s does not answer: %s: %s", node.Name,
					c.Reason, c.Message))
			}
		}
	}
}

// addFinalizers adds which finalizers of other programs keep a VM, or its VMI, that is deleted.
func (e *Evidence) addFinalizers() {
	e.addFinalizersOf("VirtualMachine", e.vm)
	e.addFinalizersOf("VirtualMachineInstance", e.vmi)
}

func (e *Evidence) addFinalizersOf(kind string, o *kubeVirtState) {
	if o == nil || !o.isDeleted {
		return
	}

	for _, name := range o.finalizers {
		isKubernetes := strings.HasPrefix(name, "foreground") || name == "orphan"
		if !isKubernetes && !strings.HasPrefix(name, "kubevirt.io/") {
			e.addFact(StageStop,
				fmt.Sprintf("%s %s waits for the finalizer %s", kind, e.Name, name))
		}
	}
}

// addHeartbeats adds that the heartbeat of a node's virt-handler is over.
func (e *Evidence) addHeartbeats() {
	for _, node := range e.nodes {
		if node.Labels[schedulable] == "false" {
			e.addFact(StageSchedule, fmt.Sprintf("virt-handler does not run on node %s, whose label "+
				"%s is false", node.Name, schedulable))
		}
	}
}

// addOffers adds that a node offers none of a resource that it has, or that pods there have.
func (e *Evidence) addOffers(name corev1.ResourceName) {
	users := e.users(name)
	for _, node := range e.nodes {
		has, isOffered := node.Status.Allocatable[name]
		total := node.Status.Capacity[name]
		holders := strings.Join(users[node.Name], ", ")
		switch {
		case !has.IsZero():
		case holders != "":
			e.addFact(StageSchedule, fmt.Sprintf("the device plugin on node %s stopped: the node "+
				"offers no %s, and %s uses it", node.Name, name, holders))
		case !total.IsZero():
			e.addFact(StageSchedule, fmt.Sprintf("node %s has %s of %s, all unhealthy", node.Name,
				total.String(), name))
		case isOffered && !e.isOffered(name, ""):
			e.addFact(StageSchedule, fmt.Sprintf("node %s has 0 of %s, which a device plugin "+
				"registered there", node.Name, name))
		}
	}
}

// addSelectors adds that a selector of the KubeVirt object gives its devices to two resources, one
// of which the VM waits for.
func (e *Evidence) addSelectors(name corev1.ResourceName) {
	if e.permitted == nil {
		return
	}

	resources := map[string][]string{}
	for _, d := range slices.Concat(e.permitted.PCIHostDevices, e.permitted.MediatedDevices) {
		selector := strings.ToUpper(cmp.Or(d.PCIVendorSelector, d.MDEVNameSelector))
		if !slices.Contains(resources[selector], d.ResourceName) {
			resources[selector] = append(resources[selector], d.ResourceName)
		}
	}

	for _, selector := range slices.Sorted(maps.Keys(resources)) {
		names := resources[selector]
		if len(names) > 1 && slices.Contains(names, string(name)) {
			e.addFact(StageSchedule, fmt.Sprintf("selector %s in permittedHostDevices has the "+
				"resources %s", selector, strings.Join(names, " and ")))
		}
	}
}

// operatorLabel begins the labels with which NVIDIA's GPU Operator says what runs on a node
// (gpu-operator controllers/state_manager.go).
const operatorLabel = "nvidia.com/gpu.deploy."

// addOperators adds that a pod of NVIDIA's GPU Operator is missing on a node whose labels ask for
// it, if the operator's pods were read.
func (e *Evidence) addOperators() {
	isOperators := func(pod object) bool { return strings.HasPrefix(pod.Name, "nvidia-") }
	if !slices.ContainsFunc(e.pods, isOperators) {
		return
	}

	for _, node := range e.nodes {
		for _, label := range slices.Sorted(maps.Keys(node.Labels)) {
			component, isLabel := strings.CutPrefix(label, operatorLabel)
			isThere := func(pod object) bool {
				return pod.Spec.NodeName == node.Name && strings.Contains(pod.Name, component)
			}

			if isLabel && node.Labels[label] == "true" && !slices.ContainsFunc(e.pods, isThere) {
				e.addFact(StageSchedule, fmt.Sprintf("node %s has the label %s, and no pod nvidia-%s "+
					"is there", node.Name, label, component))
			}
		}
	}
}
