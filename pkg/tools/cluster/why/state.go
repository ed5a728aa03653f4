package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/tools/cluster/redact"
)

// State returns what the objects that were read say about the VM.
func (e *Evidence) State() State {
	s := State{Name: "unknown", Text: "is in an unknown state: neither the VM nor its VMI was read"}
	if e.vm != nil {
		s = e.vmState()
	}

	isEnded := e.Phase == string(v1.Failed) || e.Phase == string(v1.Succeeded)
	isOfVMI := s.Name == "running" || s.Name == "starting" || s.Name == "unknown" ||
		s.Name == "stopped" && !s.onPurpose && isEnded ||
		s.Name == "stopping" && !e.vm.isDeleted && e.vmi != nil && e.vmi.isDeleted
	if e.vmi != nil && isOfVMI {
		todo := s.ToDo
		s = e.vmiState()
		s.ToDo = cmp.Or(s.ToDo, todo)
	}

	s.Notes = append([]string{}, e.restoreNotes()...)
	if e.vmi != nil {
		s.Notes = append(s.Notes, e.notes()...)
	}

	return s
}

// vmStates are the states that a VM's printableStatus names (KubeVirt
// staging/src/kubevirt.io/api/core/v1/types.go). Of the others its VMI says more.
var vmStates = map[v1.VirtualMachinePrintableStatus]State{
	v1.VirtualMachineStatusStopping: {
		Name: "stopping", Text: "is stopping",
	}, // stopping says more, if the VMI was read
	v1.VirtualMachineStatusTerminating: {
		Name: "stopping", Text: "is being deleted",
	},
	v1.VirtualMachineStatusProvisioning: {
		Name: "provisioning", Text: "waits for its volumes, which are being provisioned",
		ToDo: "kubectl get datavolume,pvc shows how far they are",
	},
	v1.VirtualMachineStatusWaitingForVolumeBinding: {
		Name: "waiting-for-volume", Text: "waits for a volume that is not bound",
		ToDo: "kubectl get pvc and kubectl describe pvc say why",
	},
	v1.VirtualMachineStatusPvcNotFound: {
		Name: "waiting-for-volume", Text: "waits for a PersistentVolumeClaim that does not exist",
		ToDo: "create it, or correct its name under volumes",
	},
	v1.VirtualMachineStatusDataVolumeError: {
		Name: "waiting-for-volume", Text: "waits for a DataVolume that failed",
		ToDo: "kubectl describe datavolume says why",
	},
	v1.VirtualMachineStatusWaitingForReceiver: {
		Name: "waiting-for-receiver", Text: "waits for a migration from another cluster",
	},
}

// vmState returns the state that the VM's object says.
func (e *Evidence) vmState() State {
	vm := e.vm
	status := v1.VirtualMachinePrintableStatus(vm.Status.PrintableStatus)
	strategy := v1.VirtualMachineRunStrategy(vm.Spec.RunStrategy)
	s, isKnown := vmStates[status]
	if strategy == "" && vm.Spec.Running != nil && !*vm.Spec.Running {
		strategy = v1.RunStrategyHalted
	}

	isOn := strategy == v1.RunStrategyAlways || strategy == "" && vm.Spec.Running != nil

	switch failure := vm.Status.StartFailure; {
	case isKnown:
	case status == v1.VirtualMachineStatusCrashLoopBackOff:
		s = State{Name: "crash-loop", Text: "fails at each start"}
		if failure != nil && failure.ConsecutiveFailCount > 0 {
			next := failure.RetryAfter().Format(timeFormat)
			s.Text += fmt.Sprintf(": %d in a row, the next is at %s", failure.ConsecutiveFailCount,
				next)
		}

	case status == v1.VirtualMachineStatusStopped && strategy == v1.RunStrategyHalted:
		s = State{Name: "stopped", Text: "is stopped: runStrategy Halted", onPurpose: true}
		s.ToDo = "virtctl start " + e.Name

	case status == v1.VirtualMachineStatusStopped && isOn:
		s = State{Name: "stopped", Text: "is stopped, though runStrategy is Always"}
	case status == v1.VirtualMachineStatusStopped:
		strategy = cmp.Or(strategy, "that was not read")
		s = State{Name: "stopped", ToDo: "virtctl start " + e.Name}
		s.Text = fmt.Sprintf("is stopped: runStrategy %s starts it on demand, or once", strategy)

	case status == "" || status == v1.VirtualMachineStatusUnknown:
		s = State{Name: "unknown", Text: "is in an unknown state"}

	case status == v1.VirtualMachineStatusRunning:
		s = State{Name: "running", Text: "runs"}
	default:
		s = State{Name: "starting", Text: fmt.Sprintf("is starting (%s)", status)}
	}

	return s
}

// phases are the states of a VMI before it runs, and after.
var phases = map[string]State{
	"":           {Name: "starting", Text: "is starting: its VMI has no pod yet"},
	"Pending":    {Name: "starting", Text: "is starting: its VMI has no pod yet"},
	"Scheduling": {Name: "starting", Text: "is starting: its pod does not run yet"},
	"Scheduled":  {Name: "starting", Text: "is starting: its pod runs, and the domain does not"},
	"Failed":     {Name: "failed", Text: "has failed: its VMI ended with an error"},
	"Succeeded":  {Name: "stopped", Text: "has ended: the guest shut down"},
}

// vmiState returns the state that the VMI says.
func (e *Evidence) vmiState() State {
	vmi, paused := e.vmi, e.condition(v1.VirtualMachineInstancePaused, corev1.ConditionTrue)
	notReady := e.condition(v1.VirtualMachineInstanceReady, corev1.ConditionFalse)
	migration := vmi.Status.MigrationState
	switch before, isBefore := phases[e.Phase]; {
	case vmi.isDeleted:
		return e.stopping()
	case isBefore:
		return before
	case paused != nil && paused.Reason == "PausedIOError":
		return State{
			Name: "paused", Text: "is paused after an I/O error of a volume",
			ToDo: "see that the storage has room and answers, then virtctl unpause vm " + e.Name,
		}

	case paused != nil:
		return State{
			Name: "paused",
			Text: "is paused: " + redact.Text(cmp.Or(paused.Message, paused.Reason)),
			ToDo: "virtctl unpause vm " + e.Name,
		}

	case migration != nil && !migration.Completed:
		to := cmp.Or(migration.TargetNode, "another")
		return State{
			Name: "migrating",
			Text: fmt.Sprintf("is migrating from node %s to %s", migration.SourceNode, to),
		}

	case vmi.Status.EvacuationNodeName != "":
		return State{
			Name: "evicted",
			Text: fmt.Sprintf("has to leave node %s, which is being drained",
				vmi.Status.EvacuationNodeName),
			ToDo: "stop it if it cannot migrate: virtctl stop " + e.Name,
		}

	case notReady != nil:
		why := strings.Trim(redact.Text(notReady.Reason+": "+notReady.Message), ": ")
		return State{
			Name: "not-ready",
			Text: fmt.Sprintf("runs on node %s and is not ready (%s)", e.Node, why),
			ToDo: fmt.Sprintf("virtctl console %s shows what the guest prints", e.Name),
		}
	}

	return State{Name: "running", Text: "runs on node " + e.Node}
}

// stopping returns the state of a VM that has to end, with the time until which its guest may take: the
// grace period of its pod (KubeVirt pkg/virt-controller/services/template.go adds 30 s to the VMI's).
func (e *Evidence) stopping() State {
	s := State{Name: "stopping", Text: "is stopping: its VMI is being deleted"}
	for _, pod := range e.pods {
		until, grace := pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds
		if until != nil && grace != nil && e.isOwn("Pod", pod.Namespace, pod.Name) {
			s.Text = fmt.Sprintf("is stopping: the guest has until %s to shut down, a grace period of %d s",
				until.UTC().Format(timeFormat), *grace)
			s.ToDo = "shut the guest down from inside; virtctl stop " + e.Name + " --force " +
				"--grace-period 0 ends it at once, as a loss of power would"
		}
	}

	return s
}

// notes says what the VMI's conditions mean beside its state.
func (e *Evidence) notes() (notes []string) {
	if c := e.condition(v1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse); c != nil {
		why := strings.Trim(redact.Text(cmp.Or(c.Message, c.Reason)), ": ")
		if c.Reason == v1.VirtualMachineInstanceReasonHostDeviceNotMigratable {
			devices := e.vmi.Spec.Domain.Devices
			for _, d := range slices.Concat(devices.GPUs, devices.HostDevices) {
				why += fmt.Sprintf(", %s (%s)", d.Name, cmp.Or(d.Resource, "of a claim"))
			}
		}

		notes = append(notes, "it cannot migrate: "+why)
	}

	if last := e.vmi.Status.MigrationState; last != nil && last.Failed {
		notes = append(notes, fmt.Sprintf("its migration from node %s to %s failed: %s",
			last.SourceNode, cmp.Or(last.TargetNode, "another"),
			cmp.Or(quote(redact.Text(last.FailureReason), 0), "no reason is given")))
	}

	if e.Phase == string(v1.Running) {
		notes = append(notes, e.volumeNotes()...)
	}

	if e.hasSplitLocks() && e.Phase == string(v1.Running) {
		notes = append(notes, "the node's kernel slows down a VM of this node, which may be another "+
			"one, since its guest takes split locks: kernel.split_lock_mitigate=0 on the node ends that")
	}

	if e.condition(v1.VirtualMachineInstanceEvictionRequested, corev1.ConditionTrue) != nil {
		notes = append(notes, "its eviction was requested")
	}

	if budgets := e.budgetNotes(); len(budgets) > 0 {
		return append(notes, budgets...)
	}

	if e.blocksDrain() {
		waits := "would wait"
		if e.drains {
			waits = "waits"
		}

		notes = append(notes, fmt.Sprintf("a drain of node %s %s for it: its eviction strategy is "+
			"%s, and it cannot migrate; virtctl stop %s ends it, and evictionStrategy "+
			"LiveMigrateIfPossible or None lets a drain do so", e.Node, waits,
			cmp.Or(e.vmi.evictionStrategy, "the cluster's"), e.Name))
	}

	return notes
}

// blocksDrain reports whether the VM runs where a drain cannot end it: KubeVirt refuses to evict
// what has to migrate and cannot.
func (e *Evidence) blocksDrain() bool {
	isFixed := e.condition(v1.VirtualMachineInstanceIsMigratable, corev1.ConditionFalse) != nil
	hasTo := e.vmi.evictionStrategy == string(v1.EvictionStrategyLiveMigrate)
	return e.Phase == string(v1.Running) && !e.vmi.isDeleted && (e.drains || hasTo && isFixed)
}

// condition returns a condition of the VMI that has a status.
func (e *Evidence) condition(
	kind v1.VirtualMachineInstanceConditionType, status corev1.ConditionStatus,
) *corev1.PodCondition {
	i := slices.IndexFunc(e.vmi.conditions, func(c corev1.PodCondition) bool {
		return string(c.Type) == string(kind) && c.Status == status
	})
	if i < 0 {
		return nil
	}
	return &e.vmi.conditions[i]
}

// kernel returns the release of the kernel of the VM's node; "" if the node was not read.
func (e *Evidence) kernel() string {
	for _, node := range e.nodes {
		if node.Name == e.Node {
			return redact.Text(node.Status.NodeInfo.KernelVersion)
		}
	}
	return ""
}
