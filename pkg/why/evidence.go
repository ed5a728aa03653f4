package why

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Evidence has the objects and logs of one VM. Without a namespace it is that VM in any.
type Evidence struct {
	VM
	Labels, Annotations map[string]string // of its VMI, or of the VM's template
	Logs                []Log             // of its pods

	lines       []Line
	nodes, pods []object // of all VMs
}

// IsEmpty reports whether nothing reports anything about the VM.
func (e *Evidence) IsEmpty() bool { return len(e.lines) == 0 }

// Log names the log of a container, or that from before its restart.
type Log struct {
	Pod, Container string
	Before         bool
}

// VM has what the objects say about the VM itself.
type VM struct {
	Namespace string `json:"namespace"` // "" where files are read and none is named
	Name      string `json:"name"`      // of the VM
	Phase     string `json:"phase"`     // of its VMI; "" without one, or where it could not be read
	Node      string `json:"node"`      // of its VMI; "" without one
	Stopped   bool   `json:"stopped"`   // nothing requests that it runs
}

// Runs reports whether the VM runs.
func (vm VM) Runs() bool { return vm.Phase == string(corev1.PodRunning) }

// Report says why the VM does not start.
type Report struct {
	VM
	Causes []Finding `json:"causes"` // the latest first
	Errors []Line    `json:"errors"` // the last five that name no cause, the latest first
}

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

// Report returns what the evidence shows. Of several attempts to start, the last counts; of a
// VM that runs, only what its guest reports. Errors that differ in numbers only are one.
func (e *Evidence) Report() Report {
	const maxErrors = 5
	private := regexp.MustCompile(`(?i)cloud-?init|passw|secret|token|ssh-`)
	number := regexp.MustCompile(`[0-9]+`)
	r, causes, known := Report{e.VM, []Finding{}, []Line{}}, Causes(), map[string]bool{}
	slices.SortStableFunc(e.lines, func(x, y Line) int { return x.Time.Compare(y.Time) })
	for _, line := range slices.Backward(e.lines) {
		text := line.Source + ": " + line.Text
		if i := slices.IndexFunc(causes, func(c Cause) bool { return c.match(text) >= 0 }); i >= 0 {
			isKnown := slices.ContainsFunc(r.Causes, func(f Finding) bool { return f.Name == causes[i].Name })
			if !isKnown && (causes[i].InGuest || !e.Runs()) {
				r.Causes = append(r.Causes, e.finding(causes[i], line))
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

// finding returns a cause with its line, of which it quotes the message: where libvirt quotes
// QEMU, that is QEMU's.
func (e *Evidence) finding(c Cause, line Line) Finding {
	text := redact(line.Text)
	shares := e.shares(text)
	if _, quoted, isQuoted := strings.Cut(text, "closed the monitor"); isQuoted {
		_, text, _ = strings.Cut(quoted, ": ")
	}
	line.Text = quote(text, c.match(text))
	return Finding{c, line, shares}
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

// redact removes values of environment variables and of fields that a message quotes, and
// credentials in addresses.
func redact(text string) string {
	text = regexp.MustCompile(`(^|[\s"'\\{\[,(])([A-Z_][A-Z0-9_]*)=(?:"[^"]*"|\S+)`).ReplaceAllString(text, "$1$2=…")
	text = regexp.MustCompile(`(?i)(value["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*')|(Value:)[^\s"}]+`).ReplaceAllString(text, "$1$2…")
	return regexp.MustCompile(`://[^/\s@]+@`).ReplaceAllString(text, "://…@")
}

// quote returns the part of a text from shortly before a place in it.
func quote(text string, at int) string {
	const before, limit = 60, 360
	if start := min(at-before, len(text)-limit); start > 0 {
		text = "…" + text[start:]
	}
	if len(text) > limit+len("…") {
		text = text[:limit] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
