package why

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Line is something that a component reported about a VM.
type Line struct {
	Source  string    // "event SyncFailed of VirtualMachineInstance dgx"
	Time    time.Time // zero where the source has none
	Text    string
	isError bool // else it is only shown where it names a cause
}

// Where returns the line's source and time.
func (l Line) Where() string {
	if l.Time.IsZero() {
		return l.Source
	}
	return l.Source + ", " + l.Time.Format("2006-01-02 15:04:05 MST")
}

// Evidence is what is known of one VM. Without a namespace it is that of any.
type Evidence struct {
	Namespace, Name string
	Phase, Node     string // of its VMI
	IsStopped       bool   // nothing asks for it to run
	Logs            []Log  // of its pods

	lines []Line
	nodes []corev1.Node
	pods  []corev1.Pod // of all VMs
}

// Log names the log of a container, or that from before its restart.
type Log struct {
	Pod, Container string
	Before         bool
}

// Finding is a cause and the last line that names it.
type Finding struct {
	Cause
	Line   Line
	Shares []string // of what is insufficient: which node has how much, and who uses it
}

// Findings returns the causes, the latest first: of several attempts to start, the last
// counts. Of a VM that runs these are what its guest reports.
func (e *Evidence) Findings() []Finding {
	causes := slices.DeleteFunc(Causes(), func(c Cause) bool { return e.Phase == "Running" && !c.InGuest })
	var found []Finding
	for _, line := range e.inOrder() {
		i := slices.IndexFunc(causes, func(c Cause) bool { return c.match(line.Source+": "+line.Text) >= 0 })
		if i < 0 {
			continue
		}
		line.Text = redact(line.Text)
		f := Finding{Cause: causes[i], Line: line, Shares: e.shares(line.Text)}
		f.Line.Text = quote(line.Text, f.match(line.Text))
		found = slices.DeleteFunc(found, func(earlier Finding) bool { return earlier.Name == f.Name })
		found = slices.Insert(found, 0, f)
	}
	return found
}

// inOrder returns the lines by their time.
func (e *Evidence) inOrder() []Line {
	return slices.SortedStableFunc(slices.Values(e.lines), func(x, y Line) int { return x.Time.Compare(y.Time) })
}

// Nearest returns the last n errors, for a VM whose cause is not known. Of those that differ
// in numbers only it has the last.
func (e *Evidence) Nearest(n int) []Line {
	private := regexp.MustCompile(`(?i)cloud-?init|passw|secret|token|ssh-`)
	number := regexp.MustCompile(`[0-9]+`)
	known := map[string]bool{}
	var nearest []Line
	for _, line := range slices.Backward(e.inOrder()) {
		form := number.ReplaceAllString(line.Text, "0")
		if line.isError && !known[form] && !private.MatchString(line.Text) && len(nearest) < n {
			known[form] = true
			line.Text = quote(redact(line.Text), 0)
			nearest = append(nearest, line)
		}
	}
	return nearest
}

// add adds a text with a line per message: libvirt's errors quote QEMU's messages, and
// KubeVirt's quote libvirt's. Cloud-init's data, and what follows it, is left out.
func (e *Evidence) add(isError bool, source string, at time.Time, text string) {
	for _, begin := range []string{"#cloud-config", "userData", "UserData", "user-data", "networkData", "NetworkData", "network-data"} {
		text, _, _ = strings.Cut(text, begin)
	}
	// What the logs of VMs that are well have, too: the owner of /dev/kvm, for example, changes
	// after libvirt looks for it (kubevirt/kubevirt issue 16369).
	harmless := []string{"/dev/kvm: ", "At least one cgroup controller is required", "system bus", "Unable to read from monitor", ": warning: "}
	text = strings.NewReplacer(`\n`, "\n", `\"`, `"`).Replace(text)
	if strings.Contains(text, "closed the monitor") { // and then libvirt quotes QEMU
		text = regexp.MustCompile(`: (\d{4}-\d\d-\d\dT\S+ qemu)`).ReplaceAllString(text, ":\n$1")
	}
	for part := range strings.SplitSeq(text, "\n") {
		isHarmless := slices.ContainsFunc(harmless, func(h string) bool { return strings.Contains(part, h) })
		if part = strings.TrimSpace(part); part != "" {
			e.lines = append(e.lines, Line{source, at.UTC(), part, isError && !isHarmless})
		}
	}
}

// redact removes values of environment variables and of specifications that a message
// quotes, and credentials in addresses.
func redact(text string) string {
	text = regexp.MustCompile(`(^|[\s"'\\{\[,(])([A-Z_][A-Z0-9_]*)=(?:"[^"]*"|\S+)`).ReplaceAllString(text, "$1$2=…")
	text = regexp.MustCompile(`(?i)(value"?\s*[:=]\s*)"[^"]*"|(Value:)[^\s"}]+`).ReplaceAllString(text, "$1$2…")
	return regexp.MustCompile(`://[^/\s@]+@`).ReplaceAllString(text, "://…@")
}

// quote returns what is around a place in a text.
func quote(text string, at int) string {
	const before, limit = 60, 360
	start := max(0, min(at-before, len(text)-limit))
	end := min(start+limit, len(text))
	cut := strings.ToValidUTF8(text[start:end], "")
	if start > 0 {
		cut = "…" + cut
	}
	if end < len(text) {
		cut += "…"
	}
	return cut
}
