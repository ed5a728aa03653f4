package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/words/lazyregexp"
)

// addObject adds an object or a list. The API server's lists have the kind of their items,
// kubectl's do not.
func (e *Evidence) addObject(data []byte, kind string) bool {
	var o object
	o.Kind = kind
	json.Unmarshal(data, &o)
	if o.Msg != "" {
		return false
	}

	if strings.HasPrefix(o.Kind, "ResourceSlice") && e.slices == nil {
		e.slices = map[string]bool{}
	}

	if kind, isList := strings.CutSuffix(o.Kind, "List"); isList {
		for _, item := range o.Items {
			e.addObject(item, kind)
		}
	}

	if o.Kind != "" && o.Items == nil {
		e.reading.countObject()
	}

	about := corev1.ObjectReference{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	switch o.Kind {
	case "Event":
		about = o.InvolvedObject
		e.addWarning(o)
	case "ResourceSlice":
		e.addSlice(data)
	case "SriovNetworkNodeState":
		e.addNodeNetworks(o, data)
	case "VirtualMachine", "VirtualMachineInstance":
		if e.names != nil {
			e.names[o.Namespace+"/"+o.Name] = true
		}
	case "KubeVirt":
		e.permitted = &o.Spec.Configuration.PermittedHostDevices
	case "Node":
		e.nodes = append(e.nodes, o)
	case "Pod":
		e.pods = append(e.pods, o)
	default:
		e.addRelated(o, data)
	}

	if about.Kind != "" && e.isOwn(about.Kind, about.Namespace, about.Name) {
		e.addOwn(o, data, fmt.Sprintf(" of %s %s", about.Kind, about.Name))
	}

	return o.Kind != ""
}

// addOwn adds an object of the VM, or an event about one, which source names.
func (e *Evidence) addOwn(o object, data []byte, source string) {
	switch o.Kind {
	case "Event":
		e.addEvent(o, source)
		return

	case "VirtualMachine":
		e.vm = stateOf(o, data)
		e.add(message{
			source: "printableStatus" + source, text: e.vm.Status.PrintableStatus, isState: true,
		})
		template := e.vm.Spec.Template.Metadata
		e.Labels, e.Annotations = template.Labels, template.Annotations

	case "VirtualMachineInstance":
		e.vmi = stateOf(o, data)
		_, run, _ := kubevirt.ParseRun(data) // as far as its fields fit
		e.Phase, e.Node = cmp.Or(run.Phase, string(v1.Pending)), run.Node
		e.Labels, e.Annotations = o.Labels, o.Annotations
		e.addPhases(source)
		e.addMigration(source)
	}

	e.addState(o, source)
	e.addContainers(o, source)
}

// eventReasons says which stage an event's reason is about, and which it passes (Kubernetes
// pkg/kubelet/events/event.go, pkg/scheduler/schedule_one.go; KubeVirt pkg/controller and
// pkg/virt-handler).
var eventReasons = map[string]struct{ about, passes Stage }{
	failedScheduling:         {about: StageSchedule},
	"Scheduled":              {passes: StageSchedule},
	"Failed":                 {about: StageContainer},
	"BackOff":                {about: StageContainer},
	"FailedMount":            {about: StageContainer},
	"FailedAttachVolume":     {about: StageContainer},
	"FailedCreatePodSandBox": {about: StageContainer},
	"Pulled":                 {passes: StageContainer},
	"FailedCreate":           {about: StageCreate},
	"SuccessfulCreate":       {passes: StageCreate},
	"SyncFailed":             {about: StageStart},
	"FailedMigration":        {about: StageMigrate},
	"FailedKillPod":          {about: StageStop},
	migrated:                 {passes: StageMigrate},
}

// migrated is the reason of virt-handler's events about a migration's end, of which a warning says
// that it failed (KubeVirt pkg/virt-handler/migration-source.go and migration-target.go).
const migrated = "Migrated"

// quoted is the container or image that a message of the kubelet names.
var quoted = lazyregexp.New(`^spec\.\w+\{([^}]+)\}|"([^"\s]+)"|\bcontainer ([a-z0-9-]+)$`)

// addEvent adds an event about an object that source names.
func (e *Evidence) addEvent(o object, source string) {
	m := message{
		source: "event " + o.Reason + source, heading: o.Reason, text: o.Message,
		isError: o.Type == corev1.EventTypeWarning,
		at:      cmp.Or(o.LastTimestamp.Time, o.EventTime.Time, o.CreationTimestamp.Time).UTC(),
	}

	if name, isContainer := strings.CutPrefix(o.InvolvedObject.FieldPath, "spec."); isContainer {
		_, name, _ = strings.Cut(name, "{")
		m.subject = strings.TrimSuffix(name, "}")
	}

	e.addReason(m, o.Reason, o.InvolvedObject.Kind)
}

// addReason adds an event whose reason says which stage it is about.
func (e *Evidence) addReason(m message, reason, kind string) {
	r := eventReasons[reason]
	m.stage, m.passes = r.about, r.passes
	if reason == migrated && m.isError {
		m.stage, m.passes = StageMigrate, ""
	}

	if isPod := strings.EqualFold(kind, "pod"); reason == "Started" && isPod {
		m.passes = StageContainer
	}

	isVMI := strings.EqualFold(kind, "virtualmachineinstance")
	if isVMI && (reason == "Started" || reason == "Created") {
		m.passes = StageStart // virt-handler defined it, or started it
	}

	about := cmp.Or(m.stage, m.passes)
	if found := quoted.FindStringSubmatch(m.text); about == StageContainer && m.subject == "" &&
		found != nil {
		m.subject = cmp.Or(found[1:]...)
	}

	e.add(m)
}

// addPhases adds when the VMI went from one phase to the next.
func (e *Evidence) addPhases(source string) {
	passes := map[string]Stage{
		"Scheduling": StageCreate, "Scheduled": StageContainer, "Running": StageStart,
	}
	for _, t := range e.vmi.Status.PhaseTransitionTimestamps {
		if passed := passes[t.Phase]; passed != "" {
			e.add(message{
				source: "phase " + t.Phase + source,
				at:     t.At(),
				passes: passed,
			})
		}
	}
}

// addMigration adds how the VMI's last migration ended.
func (e *Evidence) addMigration(source string) {
	last := e.vmi.Status.MigrationState
	if last == nil || !last.Completed {
		return
	}

	m := message{
		source: "migrationState" + source, at: last.End(), passes: StageMigrate,
	}
	if last.Failed {
		m.stage, m.passes = StageMigrate, ""
		m.text, m.isError, m.isState = last.FailureReason, true, true
	}

	e.add(m)
}

// addState adds the conditions of an object, and why it failed.
func (e *Evidence) addState(o object, source string) {
	if o.Status.Reason != "" {
		e.add(message{
			source: "status" + source, at: o.CreationTimestamp.UTC(),
			text: o.Status.Reason + ": " + o.Status.Message, isError: true,
		})
	}

	failed := map[string]corev1.ConditionStatus{
		"Failure": corev1.ConditionTrue, "Synchronized": corev1.ConditionFalse,
		"PodScheduled": corev1.ConditionFalse,
	}

	for _, c := range o.Status.Conditions {
		m := message{source: "condition " + string(c.Type) + source, at: c.LastTransitionTime.UTC()}
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			m.passes = StageSchedule
			e.add(m)
		}

		if c.Status == failed[string(c.Type)] {
			m.text, m.isError, m.isState = c.Reason+": "+c.Message, true, !o.isEnded()
			if o.Labels[v1.MigrationJobLabel] != "" {
				m.stage = StageMigrate
			}

			e.add(m)
		}
	}
}

// addContainers adds the states of a pod's containers, and says which logs there are.
func (e *Evidence) addContainers(o object, source string) {
	for _, c := range slices.Concat(o.Status.InitContainerStatuses, o.Status.ContainerStatuses) {
		for i, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			isNow := i == 1
			if state.Running != nil || state.Terminated != nil {
				e.Logs = append(e.Logs, Log{o.Namespace, o.Name, c.Name, !isNow})
			}

			m := message{
				source: "container " + c.Name + source, heading: "container " + c.Name,
				subject: c.Name,
				isState: isNow && !o.isEnded(),
			}

			e.addContainer(m, state, o.CreationTimestamp.UTC())
		}
	}
}

// addContainer adds a state of a container of a pod that was created at a time.
func (e *Evidence) addContainer(m message, state corev1.ContainerState, created time.Time) {
	running, waiting, ended := state.Running, state.Waiting, state.Terminated
	switch {
	case running != nil && !running.StartedAt.IsZero():
		m.at, m.passes = running.StartedAt.UTC(), StageContainer
	case waiting != nil && waiting.Message != "":
		m.at, m.stage, m.isError = created, StageContainer, true
		m.text = waiting.Reason + ": " + waiting.Message

	case ended != nil && ended.ExitCode != 0:
		m.at, m.isError = ended.FinishedAt.UTC(), true
		m.text = fmt.Sprintf("%s (exit status %d): %s", ended.Reason, ended.ExitCode, ended.Message)

	default:
		return
	}

	e.add(m)
}
