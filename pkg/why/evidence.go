package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Evidence has the objects and logs of one VM. Without a namespace it is that VM in any.
type Evidence struct {
	Report                                // without causes and errors
	Labels, Annotations map[string]string // of its VMI, or of the VM's template
	Logs                []Log             // of its pods

	lines       []Line
	nodes, pods []object // of all VMs
}

// Log names the log of a container, or that from before its restart.
type Log struct {
	Pod, Container string
	Before         bool
}

// object is a VM, a VMI, a pod, a node, an event or a list of these. What they have in common is
// in the same fields. A field that does not fit its type is left out.
type object struct {
	corev1.Event
	Items []json.RawMessage
	Spec  struct {
		NodeName   string
		Containers []corev1.Container
		Template   struct{ Metadata metav1.ObjectMeta }
	}
	Status struct {
		corev1.PodStatus
		NodeName, PrintableStatus string
		Allocatable               corev1.ResourceList
	}
}

// Add adds a file: objects as kubectl prints them, in YAML or JSON, Lists or several
// documents. What is neither is a log.
func (e *Evidence) Add(source string, data []byte) {
	if e.addObject(data, "") {
		return // JSON, which is faster to read as that
	}
	for _, document := range regexp.MustCompile(`(?m)^---.*$`).Split(string(data), -1) {
		if data, err := yaml.YAMLToJSON([]byte(document)); err != nil || !e.addObject(data, "") {
			e.AddLog(source, document)
		}
	}
}

// addObject adds an object or a list. The API server's lists have the kind of their items,
// kubectl's do not.
func (e *Evidence) addObject(data []byte, kind string) bool {
	var o object
	o.Kind = kind
	json.Unmarshal(data, &o)
	if kind, isList := strings.CutSuffix(o.Kind, "List"); isList {
		for _, item := range o.Items {
			e.addObject(item, kind)
		}
		return true
	}
	of := corev1.ObjectReference{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	switch o.Kind {
	case "Event":
		of = o.InvolvedObject
	case "Node":
		e.nodes = append(e.nodes, o)
	case "Pod":
		e.pods = append(e.pods, o)
	}
	isVM := (of.Kind == "VirtualMachine" || of.Kind == "VirtualMachineInstance") && of.Name == e.Name
	if (isVM || of.Kind == "Pod" && e.isLauncher(of.Name)) && (e.Namespace == "" || e.Namespace == of.Namespace) {
		e.addOwn(o, fmt.Sprintf(" of %s %s", of.Kind, of.Name))
	}
	return o.Kind != ""
}

// isLauncher reports whether a pod's name is that of the VM: KubeVirt lets the API server
// generate its end (k8s.io/apiserver pkg/storage/names/generate.go). A pod that is gone has
// left its events.
func (e *Evidence) isLauncher(pod string) bool {
	const maxBase = 58
	base := "virt-launcher-" + e.Name + "-"
	end, found := strings.CutPrefix(pod, base[:min(len(base), maxBase)])
	return found && !strings.Contains(end, "-")
}

// addOwn adds an object of the VM, or an event about one, of which source says so.
func (e *Evidence) addOwn(o object, source string) {
	switch o.Kind {
	case "Event":
		at := o.LastTimestamp.Time
		if at.IsZero() {
			at = o.EventTime.Time
		}
		e.add(o.Type == corev1.EventTypeWarning, "event "+o.Reason+source, at, o.Message)
	case "VirtualMachine":
		e.Stopped = o.Status.PrintableStatus == string(v1.VirtualMachineStatusStopped)
		if e.Phase == "" {
			e.Labels, e.Annotations = o.Spec.Template.Metadata.Labels, o.Spec.Template.Metadata.Annotations
		}
	case "VirtualMachineInstance":
		e.Phase, e.Node = string(cmp.Or(o.Status.Phase, corev1.PodPending)), o.Status.NodeName
		e.Labels, e.Annotations = o.Labels, o.Annotations
	case "Pod":
		e.addPod(o, source)
	}
	failed := map[string]corev1.ConditionStatus{"Failure": corev1.ConditionTrue, "Synchronized": corev1.ConditionFalse, "PodScheduled": corev1.ConditionFalse}
	for _, c := range o.Status.Conditions {
		if c.Status == failed[string(c.Type)] {
			e.add(true, "condition "+string(c.Type)+source, c.LastTransitionTime.Time, c.Reason+": "+c.Message)
		}
	}
}

func (e *Evidence) addPod(pod object, source string) {
	if pod.Status.Reason != "" {
		e.add(true, "status"+source, pod.CreationTimestamp.Time, pod.Status.Reason+": "+pod.Status.Message)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for i, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			if state.Running != nil || state.Terminated != nil {
				e.Logs = append(e.Logs, Log{Pod: pod.Name, Container: c.Name, Before: i == 0})
			}
			if waiting := state.Waiting; waiting != nil && waiting.Message != "" {
				e.add(true, "container "+c.Name+source, pod.CreationTimestamp.Time, waiting.Reason+": "+waiting.Message)
			}
			if ended := state.Terminated; ended != nil && ended.ExitCode != 0 {
				e.add(true, "container "+c.Name+source, ended.FinishedAt.Time, fmt.Sprintf("%s (exit status %d): %s", ended.Reason, ended.ExitCode, ended.Message))
			}
		}
	}
}

// AddLog adds a container's log. Its lines are JSON, which a prefix of kubectl or of the
// container's runtime may precede, or what QEMU, a guest or a Go program in panic prints.
func (e *Evidence) AddLog(source, text string) {
	stamp := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+`)
	bad := regexp.MustCompile(`^\W*(panic|fatal|error)\b|qemu-(kvm|system-\w+): `)
	for line := range strings.SplitSeq(text, "\n") {
		at := stamp.FindString(line)
		isError := bad.MatchString(strings.ToLower(line[len(at):]))
		for start := strings.Index(line, `{"`); start >= 0; start = strings.Index(line, `{"`) {
			var entry struct{ Level, Msg, Reason, Error, Timestamp, Time string }
			if json.NewDecoder(strings.NewReader(line[start:])).Decode(&entry) != nil || entry.Msg == "" {
				break
			}
			// Under KubeVirt's sidecar-shim the message is a line of the hook's own log.
			at, isError = cmp.Or(entry.Timestamp, entry.Time), slices.Contains([]string{"error", "panic", "fatal"}, strings.ToLower(entry.Level))
			line = strings.TrimRight(entry.Msg+": "+cmp.Or(entry.Reason, entry.Error), ": ")
		}
		parsed, _ := time.Parse(time.RFC3339, at)
		e.add(isError, source, parsed, line)
	}
}

// add adds a message, one line per line of its text: KubeVirt's messages quote libvirt's, and
// those QEMU's. It leaves out cloud-init data and the rest of the message.
func (e *Evidence) add(isError bool, source string, at time.Time, text string) {
	for _, begin := range []string{"#cloud-config", "userData", "UserData", "user-data", "networkData", "NetworkData", "network-data"} {
		text, _, _ = strings.Cut(text, begin)
	}
	// Logs of VMs that are well have these, too: the owner of /dev/kvm, for example, changes
	// after libvirt looks for it (kubevirt/kubevirt issue 16369).
	harmless := []string{"/dev/kvm: ", "At least one cgroup controller is required", "system bus", "Unable to read from monitor", ": warning: "}
	for part := range strings.SplitSeq(strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(text), "\n") {
		isHarmless := slices.ContainsFunc(harmless, func(h string) bool { return strings.Contains(part, h) })
		if part = strings.TrimSpace(part); part != "" {
			e.lines = append(e.lines, Line{source, at.UTC(), part, isError && !isHarmless})
		}
	}
}

// NoNode is the cause for which nodes, and the pods of all namespaces, say who has what.
const NoNode = "no-node"

// shares returns a line per device, and per size of hugepages, that the scheduler reports as
// insufficient: which nodes have it, and which pods use it there. Without nodes it returns none.
func (e *Evidence) shares(message string) []string {
	lines := []string{}
	for _, match := range regexp.MustCompile(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`).FindAllStringSubmatch(message, -1) {
		name, users, nodes := corev1.ResourceName(match[1]), map[string][]string{}, []string(nil)
		for _, pod := range e.pods {
			for _, c := range pod.Spec.Containers {
				has, on := c.Resources.Requests[name], pod.Spec.NodeName
				user := fmt.Sprintf("%s/%s (%s)", pod.Namespace, pod.Name, has.String())
				isEnded := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
				if !has.IsZero() && !isEnded && !slices.Contains(users[on], user) { // a pod may be in two lists
					users[on] = append(users[on], user)
				}
			}
		}
		for _, node := range e.nodes {
			if has := node.Status.Allocatable[name]; !has.IsZero() {
				used := cmp.Or(strings.Join(users[node.Name], ", "), "no pod that was read")
				nodes = append(nodes, fmt.Sprintf("node %s has %s, used by %s", node.Name, has.String(), used))
			}
		}
		if len(e.nodes) > 0 {
			lines = append(lines, quote(match[1]+": "+cmp.Or(strings.Join(nodes, "; "), "no node has it"), 0))
		}
	}
	return lines
}
