// Package why names the cause of a VM that does not start. Objects of the API server and
// logs become the Evidence about one VM, and the table (causes.yaml) says which of its lines
// name a cause. Objects and logs hold secrets: no value of an environment
// variable and no cloud-init data is in what the package returns.
package why

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// table begins with what its columns are.
//
//go:embed causes.yaml
var table []byte

// Cause is a row of the table.
type Cause struct {
	Name     string   `json:"name"`     // the heading in docs/causes.md
	What     string   `json:"what"`     // what went wrong
	Messages []string `json:"messages"` // that components print; "*" stands for any text
	Remedy   string   `json:"remedy"`   // what to do
	Check    string   `json:"check"`    // doctor's check about the same; "" without one
	InGuest  bool     `json:"inGuest"`  // the VM runs, and its guest prints the messages
	Seen     []string `json:"seen"`     // addresses of threads that have the messages, or of code that prints them
}

// Causes returns the table.
func Causes() []Cause {
	var all []Cause
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		panic("causes.yaml: " + err.Error()) // it is part of the program
	}
	return all
}

// match returns where a text has one of the cause's messages, or -1.
func (c Cause) match(text string) int {
	for _, message := range c.Messages {
		before, after, _ := strings.Cut(message, "*")
		if at := strings.Index(text, before); at >= 0 && strings.Contains(text[at+len(before):], after) {
			return at
		}
	}
	return -1
}

// Report says why a VM does not start.
type Report struct {
	SchemaVersion int       `json:"schemaVersion"` // 1
	Namespace     string    `json:"namespace"`     // of the VM; "" where files are read and none is named
	Name          string    `json:"name"`          // of the VM
	Phase         string    `json:"phase"`         // of its VMI; "" where none was read
	Node          string    `json:"node"`          // of its VMI; "" before it has one
	Causes        []Finding `json:"causes"`        // the latest first
	Errors        []Line    `json:"errors"`        // the last five that name no cause, the latest first
	Installation  []string  `json:"installation"`  // if the VM requests the hook, which did not place its devices: what doctor finds in the cluster
	Unread        []string  `json:"unread"`        // what could not be read, and the rule that grants it
}

// Runs reports whether the VM runs.
func (r Report) Runs() bool { return r.Phase == string(corev1.PodRunning) }

// Finding is a cause and the last line that names it.
type Finding struct {
	Cause
	Line   Line     `json:"line"`   // that names the cause
	Shares []string `json:"shares"` // of each resource that is insufficient: how much each node has, and who uses it
}

// Line is a line of a message about the VM.
type Line struct {
	Source string    `json:"source"`        // who reports it, such as "event SyncFailed of VirtualMachineInstance dgx"
	Time   time.Time `json:"time,omitzero"` // absent where the source has none
	Text   string    `json:"text"`          // without values of environment variables and cloud-init data

	isError bool // else it is only shown where it names a cause
}

// Where returns the line's source and time.
func (l Line) Where() string {
	if l.Time.IsZero() {
		return l.Source
	}
	return l.Source + ", " + l.Time.Format("2006-01-02 15:04:05 MST")
}

// Diagnose returns the report with causes and errors. Of several attempts to start, the last
// counts; of a VM that runs, what its guest reports. Errors that differ in numbers only are one.
func (e *Evidence) Diagnose() Report {
	const maxErrors = 5
	private := regexp.MustCompile(`(?i)cloud-?init|passw|secret|token|ssh-`)
	number := regexp.MustCompile(`[0-9]+`)
	r, causes, known := e.Report, Causes(), map[string]bool{}
	r.SchemaVersion, r.Causes, r.Errors = 1, []Finding{}, []Line{}
	slices.SortStableFunc(e.lines, func(x, y Line) int { return x.Time.Compare(y.Time) })
	for _, line := range slices.Backward(e.lines) {
		text := line.Source + ": " + line.Text
		if i := slices.IndexFunc(causes, func(c Cause) bool { return c.match(text) >= 0 }); i >= 0 {
			isKnown := slices.ContainsFunc(r.Causes, func(f Finding) bool { return f.Name == causes[i].Name })
			if !isKnown && (causes[i].InGuest || !e.Runs()) {
				line.Text = redact(line.Text)
				line.Text = quote(line.Text, causes[i].match(line.Text))
				r.Causes = append(r.Causes, Finding{causes[i], line, e.shares(text)})
			}
			continue
		}
		form := number.ReplaceAllString(line.Text, "0")
		if line.isError && !known[form] && !private.MatchString(line.Text) && len(r.Errors) < maxErrors {
			known[form] = true
			line.Text = quote(redact(line.Text), 0)
			r.Errors = append(r.Errors, line)
		}
	}
	return r
}

// redact removes values of environment variables and of fields that a message quotes, and
// credentials in addresses.
func redact(text string) string {
	text = regexp.MustCompile(`(^|[\s"'\\{\[,(])([A-Z_][A-Z0-9_]*)=(?:"[^"]*"|\S+)`).ReplaceAllString(text, "$1$2=…")
	text = regexp.MustCompile(`((?i:value)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*')|(Value:)[^"}]+|(value: )\S+`).ReplaceAllString(text, "$1$2$3…")
	return regexp.MustCompile(`://[^/\s@]+@`).ReplaceAllString(text, "://…@")
}

// quote returns the part of a text from shortly before a place in it.
func quote(text string, at int) string {
	const before, limit = 240, 360
	if start := min(at-before, len(text)-limit); start > 0 {
		text = "…" + text[start:]
	}
	if len(text) > limit+len("…") {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

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
		NodeName    string
		Allocatable corev1.ResourceList
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
// generate its end, after at most 58 characters (k8s.io/apiserver
// pkg/storage/names/generate.go). A pod that is gone has left its events.
func (e *Evidence) isLauncher(pod string) bool {
	base := "virt-launcher-" + e.Name + "-"
	end, found := strings.CutPrefix(pod, base[:min(len(base), 58)])
	return found && !strings.Contains(end, "-")
}

// addOwn adds an object of the VM, or an event about one, which source names.
func (e *Evidence) addOwn(o object, source string) {
	at := cmp.Or(o.LastTimestamp.Time, o.EventTime.Time, o.CreationTimestamp.Time)
	switch o.Kind {
	case "Event":
		e.add(o.Type == corev1.EventTypeWarning, "event "+o.Reason+source, at, o.Message)
	case "VirtualMachine":
		e.Labels, e.Annotations = o.Spec.Template.Metadata.Labels, o.Spec.Template.Metadata.Annotations
	case "VirtualMachineInstance":
		e.Phase, e.Node = string(cmp.Or(o.Status.Phase, corev1.PodPending)), o.Status.NodeName
		e.Labels, e.Annotations = o.Labels, o.Annotations
	}
	if o.Status.Reason != "" {
		e.add(true, "status"+source, at, o.Status.Reason+": "+o.Status.Message)
	}
	failed := map[string]corev1.ConditionStatus{"Failure": corev1.ConditionTrue, "Synchronized": corev1.ConditionFalse, "PodScheduled": corev1.ConditionFalse}
	for _, c := range o.Status.Conditions {
		if c.Status == failed[string(c.Type)] {
			e.add(true, "condition "+string(c.Type)+source, c.LastTransitionTime.Time, c.Reason+": "+c.Message)
		}
	}
	for _, c := range slices.Concat(o.Status.InitContainerStatuses, o.Status.ContainerStatuses) {
		for i, state := range []corev1.ContainerState{c.LastTerminationState, c.State} {
			if state.Running != nil || state.Terminated != nil {
				e.Logs = append(e.Logs, Log{Pod: o.Name, Container: c.Name, Before: i == 0})
			}
			if waiting := state.Waiting; waiting != nil && waiting.Message != "" {
				e.add(true, "container "+c.Name+source, at, waiting.Reason+": "+waiting.Message)
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
