package why

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Report says why a VM does not start.
type Report struct {
	SchemaVersion int `json:"schemaVersion"` // 2
	// of the VM; "" where files are read and none is named
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`  // of the VM
	Phase     string   `json:"phase"` // of its VMI; "" where none was read
	Node      string   `json:"node"`  // of its VMI; "" before it has one
	State     State    `json:"state"` // of the VM, in words
	Files     []string `json:"files"` // that were read in place of the cluster
	// says that it started, after all errors; null where none does
	Started *Line        `json:"started"`
	Causes  []FoundCause `json:"causes"` // the latest first
	// causes that are past, the latest first; none if the VM runs
	History []FoundCause `json:"history"`
	// the last of each source that names no cause, and the next latest up to five: first what ends
	// a start, such as QEMU's and the guest's drivers', then the latest; of a VM that runs, those
	// since its start, and those of the guest and of the node's kernel
	Errors []Line `json:"errors"`
	Read   []Read `json:"read"` // what was read of each file
	// if the VM requests the hook, which did not place its devices: what doctor finds in the
	// cluster
	Installation []string `json:"installation"`
	// what could not be read, and the rule that grants it
	Unread []string `json:"unread"`
}

// Runs reports whether the VM runs: its VMI says so or, where none was read, the last line about
// its start.
func (r Report) Runs() bool {
	return r.Phase == string(corev1.PodRunning) || r.Phase == "" && r.Started != nil
}

// Fails reports whether the VM does not run as it should: it does not run, is paused, or has to end
// and does not.
func (r Report) Fails() bool {
	isStuck := r.State.Name == "stopping" && len(r.Causes) > 0
	return !r.Runs() || r.State.Name == "paused" || isStuck
}

// IsUnknown reports whether the VM does not run, and nothing says why or what to do.
func (r Report) IsUnknown() bool {
	return r.Fails() && len(r.Causes) == 0 && r.State.ToDo == "" && r.State.Name != "migrating"
}

// State says in words how the VM is, by its objects.
type State struct {
	// such as stopped, starting, running, paused; "unknown" with a log alone
	Name  string   `json:"name"`
	Text  string   `json:"text"`  // the rest of a sentence that begins with the VM
	ToDo  string   `json:"toDo"`  // what to do if no cause is found; "" if nothing is to be done
	Notes []string `json:"notes"` // what else its conditions say: that it cannot migrate, and why

	onPurpose bool // it is stopped because its spec says so
}

// FoundCause is a cause and the last line that names it.
type FoundCause struct {
	Cause
	Line Line  `json:"line"` // that names the cause
	Past *Line `json:"past"` // says that the VM got further later; null if nothing does
	// what the evidence names of it: the node, the pod, the device, who holds it
	About []string `json:"about"`
	// the first line of the same failure in the same log, which mostly says why; null if line is it
	First *Line `json:"first"`
	// of each resource that is insufficient: how much each node has, and who uses it
	Shares []string `json:"shares"`
}

// Line is a line of a message about the VM.
type Line struct {
	// who reports it, such as "event SyncFailed of VirtualMachineInstance dgx"
	Source string    `json:"source"`
	Time   time.Time `json:"time,omitzero"` // absent where the source has none
	// without values of variables, headers and tokens, and without cloud-init data
	Text string `json:"text"`
	// who says it, such as QEMU or the kubelet, by where it comes from; "" if that is not known
	Speaker string `json:"speaker"`
}

// Where returns the line's source and time.
func (l Line) Where() string {
	if l.Time.IsZero() {
		return l.Source
	}
	return l.Source + ", " + l.Time.Format(timeFormat)
}

// timeFormat is how times are printed.
const timeFormat = "2006-01-02 15:04:05 MST"
