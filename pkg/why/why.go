// Package why names the cause of a VM that does not start. Objects of the API server and logs
// become the Evidence about one VM (object.go, log.go), and the table (causes.yaml) says which of
// its lines name a cause. What the VM got past later is history. Objects and logs hold secrets: all
// text of theirs that the package returns has gone through redact.Text.
package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/redact"
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
	Started *Line     `json:"started"`
	Causes  []Finding `json:"causes"` // the latest first
	// causes that are past, the latest first; none if the VM runs
	History []Finding `json:"history"`
	// the last five that name no cause, the latest first; of a VM that runs, those since its start
	Errors []Line `json:"errors"`
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

// Finding is a cause and the last line that names it.
type Finding struct {
	Cause
	Line Line  `json:"line"` // that names the cause
	Past *Line `json:"past"` // says that the VM got further later; null if nothing does
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
}

// Where returns the line's source and time.
func (l Line) Where() string {
	if l.Time.IsZero() {
		return l.Source
	}
	return l.Source + ", " + l.Time.Format(timeFormat)
}

// maxErrors limits the errors that name no cause.
const maxErrors = 5

// Diagnose returns the report with causes and errors. Of several attempts to start, the last
// counts; of a VM that runs, what its guest reports, and what keeps it from migrating.
func (e *Evidence) Diagnose() Report {
	r := e.Report
	r.State, r.Files = e.State(), append([]string{}, e.Files...)
	r.Unread, r.Installation = safe(e.Unread), safe(e.Installation)
	r.SchemaVersion, r.Causes, r.History, r.Errors = 2, []Finding{}, []Finding{}, []Line{}
	all := e.inOrder()
	var passed, shown []entry
	sinceStart := 0 // how many errors are later than the start
	for _, n := range all {
		if n.passed != "" {
			passed = append(passed, n)
		}
	}

	for _, n := range slices.Backward(all) {
		past := n.past(passed)
		if n.passed == StageStart {
			sinceStart = max(sinceStart, len(r.Errors))
		}

		switch {
		case n.passed == StageStart && r.Started == nil && len(r.Causes)+len(r.Errors) == 0:
			line := n.show()
			r.Started = &line

		case n.passed != "":
		case n.cause != nil:
			r.addFinding(n, past, e)
		case past == nil && len(r.Errors) < maxErrors && !isPrivate(n) && !isRepeated(n, shown):
			if line := n.show(); strings.Trim(line.Text, redact.Mark+" ") != "" {
				shown, r.Errors = append(shown, n), append(r.Errors, line)
			}
		}
	}

	r.orderCauses()
	if e.isSlow(r) {
		r.setSlow(e.qemu, e.kernel())
	}

	if r.State.onPurpose {
		r.History, r.Causes = slices.Concat(r.Causes, r.History), []Finding{}
	}

	if r.Runs() {
		isOther := func(f Finding) bool {
			return f.Stage != StageGuest && f.Stage != StageMigrate
		}
		r.Causes, r.History = slices.DeleteFunc(r.Causes, isOther), []Finding{}
	}

	if r.State.Name == "running" { // whatever failed before it started
		r.Errors = r.Errors[:sinceStart]
	}

	return r
}

// safe returns texts without secrets: a server's answer, or a setting that a check quotes.
func safe(texts []string) []string {
	all := []string{}
	for _, text := range texts {
		all = append(all, redact.Text(text))
	}
	return all
}

// isSlow reports whether a VM's start only takes long: libvirt started QEMU, and nothing says since
// that it failed.
func (e *Evidence) isSlow(r Report) bool {
	if e.Phase != "Scheduled" || r.State.Name != "starting" || r.Started != nil || e.qemu == nil {
		return false
	}

	isSince := func(l Line) bool { return l.Time.IsZero() || !l.Time.Before(e.qemu.Time) }
	isFailed := func(f Finding) bool { return f.Name != slowStart && isSince(f.Line) }
	return !slices.ContainsFunc(r.Causes, isFailed) && !slices.ContainsFunc(r.Errors, isSince)
}

// slowStart is the cause for which virt-handler alone gives up.
const slowStart = "slow-start"

// setSlow says that QEMU runs and that the domain will, on a node with a kernel, "" if that is not
// known. What went wrong before is past.
func (r *Report) setSlow(qemu *Line, kernel string) {
	r.State.Text = fmt.Sprintf("is starting: QEMU runs since %s, and maps memory and BARs",
		qemu.Time.Format(timeFormat))
	if kernel != "" {
		r.State.Text += fmt.Sprintf(" with Linux %s on node %s", kernel, r.Node)
	}

	r.State.ToDo = "wait: much memory and large BARs take minutes; hugepages, and Linux 6.15 on " +
		"the node with QEMU 9.2, make it shorter; kubectl hostdev explain --details estimates how " +
		"long"

	current := []Finding{}
	for _, f := range slices.Backward(r.Causes) {
		if f.Name == slowStart {
			current = append(current, f)
			continue
		}

		f.Past = qemu
		r.History = slices.Insert(r.History, 0, f)
	}

	r.Causes, r.Errors = current, []Line{}
}

// orderCauses drops the causes that count only beside another one, which is not there, and puts
// what the guest reports into the order of the table.
func (r *Report) orderCauses() {
	found := slices.Clone(r.Causes)
	isAlone := func(f Finding) bool { return f.lacks(found) }
	r.Causes = slices.DeleteFunc(r.Causes, isAlone)

	slices.SortStableFunc(r.Causes, func(x, y Finding) int {
		return cmp.Compare(x.guestOrder(), y.guestOrder())
	})
}

// lacks reports whether a finding counts only beside one of other findings, and none of them is
// there.
func (f Finding) lacks(others []Finding) bool {
	isNeeded := func(o Finding) bool { return slices.Contains(f.Needs, o.Name) }
	return len(f.Needs) > 0 && !slices.ContainsFunc(others, isNeeded)
}

// guestOrder returns the order of what a guest reports, after the causes of a start: that of the
// table, since one failure of a driver leads to the next. A migration's come last.
func (f Finding) guestOrder() int {
	all := causeIndex().causes
	switch f.Stage {
	case StageGuest:
		return slices.IndexFunc(all, func(c Cause) bool { return c.Name == f.Name })
	case StageMigrate:
		return len(all)
	}

	return -1
}

// addFinding adds the cause that an entry names, unless a later entry names it.
func (r *Report) addFinding(n entry, past *entry, e *Evidence) {
	isKnown := func(f Finding) bool { return f.Name == n.cause.Name }
	if slices.ContainsFunc(r.Causes, isKnown) || slices.ContainsFunc(r.History, isKnown) {
		return
	}

	f := Finding{Cause: *n.cause, Line: n.show(), Shares: []string{}}
	if n.stage == StageMigrate || n.stage == StageGuest {
		f.Stage = n.stage // a migration's target, or the guest, fails as a start would
	}

	if past == nil {
		f.Shares = e.shares(n.text)
		r.Causes = append(r.Causes, f)
		return
	}

	line := past.show()
	f.Past = &line
	r.History = append(r.History, f)
}

// past returns the entry that says that the VM has got further since: past the stage that the entry
// is about or, after a failed migration, to a start anew. It is nil if none does.
func (n entry) past(passed []entry) *entry {
	stage := n.stage
	if stage == "" && n.cause != nil {
		stage = n.cause.Stage
	}

	at := slices.Index(stages, cmp.Or(stage, StageStart))
	for _, p := range slices.Backward(passed) {
		isFurther := slices.Index(stages, p.passed) > at
		isPassed := p.passed == stages[at] &&
			(p.subject == n.subject || p.subject == "" || n.subject == "")
		isAnew := stages[at] == StageMigrate && p.passed == StageCreate
		if (isFurther || isPassed || isAnew) && !n.isState && p.isAfter(n) {
			return &p
		}
	}

	return nil
}

// isAfter reports whether an entry is later than another one. Without a time it is so
// only in one file.
func (n entry) isAfter(other entry) bool {
	if n.at.IsZero() || other.at.IsZero() || n.at.Equal(other.at) {
		return n.source == other.source && n.number > other.number
	}
	return n.at.After(other.at)
}

// show returns the line that is shown of an entry: the part around what names its cause.
func (n entry) show() Line {
	line := Line{Source: n.source}
	if !n.isDerived {
		line.Time = n.at
	}

	if n.passed != "" && n.line == 0 && n.text == "" {
		return line
	}

	var text string
	if safe := lines(redact.Text(n.text)); n.line < len(safe) {
		text = strings.TrimSpace(safe[n.line])
	}

	at := 0
	if n.cause != nil {
		at, _ = n.cause.find(text)
		// it was removed with what is before it
		if place, _ := n.cause.find(n.matched(text)); place < 0 {
			_, message := n.cause.find(n.matched(lines(n.text)[n.line]))
			text, at = strings.TrimSpace(text+" "+message), -1
		}
	}

	line.Text = quote(text, at)
	return line
}

// isPrivate reports whether an error is one of cloud-init in the guest, or about a password, which
// may be anywhere in it.
func isPrivate(n entry) bool {
	text := strings.ToLower(lines(n.text)[n.line])
	words := []string{"cloud-init", "cloudinit", "passw", "secret", "token", "ssh-"}
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.Contains(text, word)
	})
}

// isRepeated reports whether an error says what one of the others says: the API server's
// objects and the logs quote the same message of libvirt.
func isRepeated(n entry, others []entry) bool {
	text := n.core()
	return slices.ContainsFunc(others, func(o entry) bool {
		other := o.core()
		return strings.HasSuffix(text, other) || strings.HasSuffix(other, text)
	})
}

// core returns what an error says, without who passes it on and without numbers: what libvirt's
// error quotes, else the whole.
func (n entry) core() string {
	text := form(lines(n.text)[n.line])
	if _, message, found := strings.Cut(text, "Message='"); found {
		text = message
	}
	return strings.TrimRight(text, `'")`+" ")
}

// quote returns the part of a text from shortly before a place in it.
func quote(text string, at int) string {
	const before, limit = 240, 360
	if start := min(at-before, len(text)-limit); start > 0 {
		text = redact.Mark + text[start:]
	}

	if len(text) > limit+len(redact.Mark) {
		text = text[:limit] + redact.Mark
	}

	return strings.ToValidUTF8(text, "")
}
