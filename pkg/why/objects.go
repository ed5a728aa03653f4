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
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Add adds a file: objects as kubectl prints them, in YAML or JSON, Lists or several
// documents. What is neither is a log.
func (e *Evidence) Add(source string, data []byte) {
	if e.addObject(data, "") {
		return // JSON, which is faster to read as that
	}
	object := regexp.MustCompile(`(?m)^[\s{]*"?(kind|apiVersion)"?:`)
	for _, document := range regexp.MustCompile(`(?m)^---.*$`).Split(string(data), -1) {
		if object.MatchString(document) {
			if data, err := yaml.YAMLToJSON([]byte(document)); err == nil && e.addObject(data, "") {
				continue
			}
		}
		e.AddLog(source, document)
	}
}

// addObject adds an object or a list. The API server's lists have the kind of their items,
// kubectl's do not. A field that does not fit its type is left out.
func (e *Evidence) addObject(data []byte, kind string) bool {
	list := struct {
		Kind  string
		Items []json.RawMessage
	}{Kind: kind}
	json.Unmarshal(data, &list)
	switch kind, isList := strings.CutSuffix(list.Kind, "List"); {
	case isList:
		for _, item := range list.Items {
			e.addObject(item, kind)
		}
	case kind == "VirtualMachine", kind == "VirtualMachineInstance":
		e.addInstance(kind, data)
	case kind == "Event":
		e.addEvent(decode[corev1.Event](data))
	case kind == "Pod":
		e.addPod(decode[corev1.Pod](data))
	case kind == "Node":
		e.nodes = append(e.nodes, decode[corev1.Node](data))
	}
	return list.Kind != ""
}

func decode[T any](data []byte) T {
	var object T
	json.Unmarshal(data, &object)
	return object
}

// isMine reports whether the VM's namespace is this one.
func (e *Evidence) isMine(namespace string) bool {
	return e.Namespace == "" || e.Namespace == namespace
}

// addInstance adds a VM or a VMI. Their conditions have one form; others than these say
// nothing about a start.
func (e *Evidence) addInstance(kind string, data []byte) {
	vmi := decode[v1.VirtualMachineInstance](data)
	if vmi.Name != e.Name || !e.isMine(vmi.Namespace) {
		return
	}
	if kind == "VirtualMachine" {
		e.IsStopped = decode[v1.VirtualMachine](data).Status.PrintableStatus == v1.VirtualMachineStatusStopped
	} else {
		e.Phase, e.Node = cmp.Or(string(vmi.Status.Phase), "Pending"), vmi.Status.NodeName
	}
	for _, c := range vmi.Status.Conditions {
		if i := slices.Index([]string{"Failure", "Synchronized", "PodScheduled"}, string(c.Type)); i >= 0 && (c.Status == corev1.ConditionTrue) == (i == 0) {
			e.add(true, fmt.Sprintf("condition %s of %s %s", c.Type, kind, e.Name), c.LastTransitionTime.Time, c.Reason+": "+c.Message)
		}
	}
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

func (e *Evidence) addEvent(event corev1.Event) {
	of, at := event.InvolvedObject, event.LastTimestamp.Time
	isOfVM := strings.HasPrefix(of.Kind, "VirtualMachine") && of.Name == e.Name || of.Kind == "Pod" && e.isLauncher(of.Name)
	if !isOfVM || !e.isMine(of.Namespace) {
		return
	}
	if at.IsZero() {
		at = event.EventTime.Time
	}
	e.add(event.Type == corev1.EventTypeWarning, fmt.Sprintf("event %s of %s %s", event.Reason, of.Kind, of.Name), at, event.Message)
}

func (e *Evidence) addPod(pod corev1.Pod) {
	if slices.ContainsFunc(e.pods, func(p corev1.Pod) bool { return p.Name == pod.Name && p.Namespace == pod.Namespace }) {
		return // in two lists
	}
	e.pods = append(e.pods, pod)
	if !e.isMine(pod.Namespace) || !e.isLauncher(pod.Name) {
		return
	}
	if pod.Status.Reason != "" {
		e.add(true, "status of pod "+pod.Name, pod.CreationTimestamp.Time, pod.Status.Reason+": "+pod.Status.Message)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		source := fmt.Sprintf("container %s of pod %s", c.Name, pod.Name)
		if c.LastTerminationState.Terminated != nil {
			e.Logs = append(e.Logs, Log{pod.Name, c.Name, true})
		}
		if waiting := c.State.Waiting; waiting == nil {
			e.Logs = append(e.Logs, Log{pod.Name, c.Name, false})
		} else if waiting.Message != "" {
			e.add(true, source, pod.CreationTimestamp.Time, waiting.Reason+": "+waiting.Message)
		}
		for _, ended := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
			if ended != nil && ended.ExitCode != 0 {
				e.add(true, source, ended.FinishedAt.Time, fmt.Sprintf("%s (exit status %d): %s", ended.Reason, ended.ExitCode, ended.Message))
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
