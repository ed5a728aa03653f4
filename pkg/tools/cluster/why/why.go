// Package why names the cause of a VM that does not start. Objects of the API server and logs
// become the Evidence about one VM (add_objects.go, log.go), and the table (causes.yaml) says which
// of its lines name a cause (entries.go). What several objects say together becomes a line, too
// (facts.go). What the VM got past later is history. Objects and logs hold secrets: all text of
// theirs that the package returns has gone through redact.Text.
package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"hook-sidecar/pkg/tools/cluster/redact"
)

// Diagnose returns the report with causes and errors. Of several attempts to start, the last
// counts; of a VM that runs, what its guest reports, and what keeps it from migrating.
func (e *Evidence) Diagnose() Report {
	e.hardware = e.findHardware()
	e.addFacts()
	r := e.Report
	r.State, r.Files = e.State(), append([]string{}, e.Files...)
	r.Unread, r.Installation = safe(e.Unread), safe(e.Installation)
	r.SchemaVersion, r.Causes, r.History, r.Errors = 2, []FoundCause{}, []FoundCause{}, []Line{}
	all, others := e.ofVM(e.inOrder(), r)
	r.Read = []Read{}
	for _, read := range e.read {
		counted := *read
		counted.Others += others[read]
		r.Read = append(r.Read, counted)
	}

	var passed, errors []entry
	for _, n := range all {
		if n.passed != "" {
			passed = append(passed, n)
		}
	}

	for _, n := range slices.Backward(all) {
		past := n.past(passed)
		switch {
		case n.passed == StageStart && r.Started == nil && len(r.Causes)+len(errors) == 0:
			line := n.show()
			r.Started = &line

		case n.passed != "":
		case n.cause != nil:
			r.addCause(n, past, e)
		case past == nil && n.isError && !isPrivate(n):
			errors = append(errors, n)
		}
	}

	r.orderCauses()
	if r.State.Name == "stopping" { // what kept it from its start does not keep it
		isOther := func(f FoundCause) bool { return f.Stage != StageStop }
		r.Causes = slices.Concat(slices.DeleteFunc(slices.Clone(r.Causes), isOther),
			slices.DeleteFunc(r.Causes, func(f FoundCause) bool { return !isOther(f) }))
	}

	if slices.ContainsFunc(errors, e.isOfDevice) {
		isEffect := func(f FoundCause) bool { return f.Name == slowStart }
		r.Causes = slices.DeleteFunc(r.Causes, isEffect)
	}

	if e.isSlow(r, errors) {
		r.setSlow(e.qemu, e.kernel())
		errors = nil
	}

	if r.State.onPurpose {
		r.History, r.Causes = slices.Concat(r.Causes, r.History), []FoundCause{}
	}

	if r.Runs() {
		isOther := func(f FoundCause) bool { return !f.isOfRunning(r.State) }
		r.Causes, r.History = slices.DeleteFunc(r.Causes, isOther), []FoundCause{}
	}

	if r.State.Name == "running" { // whatever failed before it started
		errors = e.sinceStart(errors, passed)
	}

	r.Errors = mostTelling(errors)
	return r
}

// ofVM returns the entries that are about the VM: of the lines of a node, those of its node and its
// devices. It counts the others by the file that has them. Of a VM that runs, of whose devices not all
// are known, a line about another device or port names no cause, since it may be another VM's.
func (e *Evidence) ofVM(all []entry, r Report) (own []entry, others map[*Read]int) {
	others = map[*Read]int{}
	for _, n := range all {
		relation := namesOwn
		if n.origin == nodes && n.passed == "" {
			relation = e.hardware.relationOf(n.plainLine())
		}

		isKnown := e.hardware.isWhole
		isRunning := r.State.Name == "running" || r.State.Name == "not-ready"
		switch {
		case n.isPlug && e.Phase == "Running" && len(e.missing()) == 0: // a later attempt succeeded
			continue
		case n.origin != guests && e.isOnOtherNode(n), n.origin == nodes && e.isOfOtherPod(n.plainLine()),
			relation == namesOther && isKnown,
			relation == namesNone && isKnown && isRunning && n.cause == nil:
			others[n.read]++
			continue
		case relation >= namesPort && isRunning && !e.isBesideOwn(n, all):
			n.cause, n.isError = nil, true
		}

		if n.passed == "" && e.isOfTarget(n) {
			n.stage = StageMigrate
		}

		own = append(own, n)
	}

	return own, others
}

// isBesideOwn reports whether a line that names none of the VM's devices may still be about the VM:
// the node's kernel printed it beside a line about one of them. Where no device is known, only what a
// guest's driver prints may be.
func (e *Evidence) isBesideOwn(n entry, all []entry) bool {
	if len(e.hardware.own) == 0 {
		return n.cause != nil && n.cause.Stage == StageGuest
	}

	return slices.ContainsFunc(all, func(o entry) bool {
		return o.source == n.source && o.origin == nodes && o.isNear(n) &&
			e.hardware.relationOf(o.plainLine()) == namesOwn
	})
}

// isOfDevice reports whether an error is the node's kernel's about one of the VM's devices: a start that
// then takes long does not go on by itself.
func (e *Evidence) isOfDevice(n entry) bool {
	return n.origin == nodes && n.subject != "" &&
		e.hardware.relationOf(n.plainLine()) == namesOwn
}

// safe returns texts without secrets: a server's answer, or a setting that a check quotes.
func safe(texts []string) []string {
	all := []string{}
	for _, text := range texts {
		all = append(all, redact.Text(text))
	}
	return all
}

// isOfRunning reports whether a VM that runs, or has to end, can have the cause.
func (f FoundCause) isOfRunning(s State) bool {
	switch f.Stage {
	case StageGuest, StageMigrate, StageNode:
		return true
	}
	return f.Stage == StageStop && s.Name == "stopping"
}

// isSlow reports whether a VM's start only takes long: libvirt started QEMU, and nothing says since
// that it failed.
func (e *Evidence) isSlow(r Report, errors []entry) bool {
	if e.Phase != "Scheduled" || r.State.Name != "starting" || r.Started != nil || e.qemu == nil {
		return false
	}

	isSince := func(at time.Time) bool { return at.IsZero() || !at.Before(e.qemu.Time) }
	isFailed := func(f FoundCause) bool { return f.Name != slowStart && isSince(f.Line.Time) }
	return !slices.ContainsFunc(r.Causes, isFailed) &&
		!slices.ContainsFunc(errors, func(n entry) bool { return isSince(n.at) })
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

	current := []FoundCause{}
	for _, f := range slices.Backward(r.Causes) {
		if f.Name == slowStart {
			current = append(current, f)
			continue
		}

		f.Past = qemu
		r.History = slices.Insert(r.History, 0, f)
	}

	r.Causes = current
}

// orderCauses drops the causes that count only beside another one, which is not there. It puts what
// the guest reports into the order of the table, and what explains other causes before these.
func (r *Report) orderCauses() {
	found, all := slices.Clone(r.Causes), slices.Concat(r.Causes, r.History)
	isAlone := func(f FoundCause) bool { return f.lacks(found) || f.Class && hasCause(found) }
	r.Causes = slices.DeleteFunc(r.Causes, isAlone)
	isPastClass := func(f FoundCause) bool { return f.Class && hasCause(all) }
	r.History = slices.DeleteFunc(r.History, isPastClass)

	slices.SortStableFunc(r.Causes, func(x, y FoundCause) int {
		return cmp.Compare(x.guestOrder(), y.guestOrder())
	})

	found = slices.Clone(r.Causes)
	isEcho := func(f FoundCause) bool { return f.isEcho(found) }
	r.Causes = slices.DeleteFunc(r.Causes, isEcho)
	slices.SortStableFunc(r.Causes, func(x, y FoundCause) int {
		return cmp.Compare(x.explained(found), y.explained(found))
	})

	r.share()
}

// share gives the first cause what the nodes have of the resource whose lack it explains.
func (r *Report) share() {
	if len(r.Causes) == 0 {
		return
	}

	first := &r.Causes[0]
	for _, f := range r.Causes[1:] {
		if len(first.Shares) == 0 && slices.Contains(first.Explains, f.Name) {
			first.Shares = f.Shares
		}
	}
}

// explained returns where a finding is in the order of the table if it explains another finding,
// else a place after all of these.
func (f FoundCause) explained(others []FoundCause) int {
	all := causeIndex().causes
	doesExplain := func(o FoundCause) bool { return slices.Contains(f.Explains, o.Name) }
	if slices.ContainsFunc(others, doesExplain) {
		return slices.IndexFunc(all, func(c Cause) bool { return c.Name == f.Name })
	}
	return len(all)
}

// isEcho reports whether another finding, in the same log, explains the finding.
func (f FoundCause) isEcho(others []FoundCause) bool {
	return slices.ContainsFunc(others, func(o FoundCause) bool {
		return o.Line.Source == f.Line.Source && slices.Contains(o.Explains, f.Name)
	})
}

// hasCause reports whether one of the findings is not a class.
func hasCause(findings []FoundCause) bool {
	return slices.ContainsFunc(findings, func(f FoundCause) bool { return !f.Class })
}

// lacks reports whether a finding counts only beside one of other findings, and none of them is
// there.
func (f FoundCause) lacks(others []FoundCause) bool {
	isNeeded := func(o FoundCause) bool { return slices.Contains(f.Needs, o.Name) }
	return len(f.Needs) > 0 && !slices.ContainsFunc(others, isNeeded)
}

// guestOrder returns the order of what a guest reports, after the causes of a start: that of the
// table, since one failure of a driver leads to the next. A migration's come last.
func (f FoundCause) guestOrder() int {
	all := causeIndex().causes
	switch f.Stage {
	case StageGuest:
		return slices.IndexFunc(all, func(c Cause) bool { return c.Name == f.Name })
	case StageMigrate:
		return len(all)
	}

	return -1
}

// addCause adds the cause that an entry names, unless a later entry names it. Of a guest with
// several devices one may work by now, and another not.
func (r *Report) addCause(n entry, past *entry, e *Evidence) {
	isKnown := func(f FoundCause) bool { return f.Name == n.cause.Name }
	at := slices.IndexFunc(r.Causes, isKnown)
	if at >= 0 && past == nil && n.origin == nodes && n.subject != "" &&
		r.Causes[at].Line.Source == n.source && device(r.Causes[at].Line.Text) == "" {
		r.Causes = slices.Delete(r.Causes, at, at+1) // this one says which device it is
	}

	isOther := n.cause.Stage == StageGuest && past == nil
	if slices.ContainsFunc(r.Causes, isKnown) ||
		slices.ContainsFunc(r.History, isKnown) && !isOther {
		return
	}

	f := FoundCause{Cause: *n.cause, Line: n.show(), Shares: []string{}}
	f.About = e.about(n, f.Line)
	f.First = e.firstOf(n)
	if n.stage == StageMigrate || n.stage == StageGuest {
		f.Stage = n.stage // a migration's target, or the guest, fails as a start would
	}

	if past == nil {
		f.Shares = e.shares(n.text)
		if f.Name == "no-node" && len(lacking(n.text)) == 0 && len(f.Shares) > 0 {
			f.Remedy = selectionRemedy
		}

		r.Causes = append(r.Causes, f)
		return
	}

	line := past.show()
	f.Past = &line
	r.History = append(r.History, f)
}

// past returns the entry that says that the VM has got further since: past the stage that the entry
// is about; or, after a failed migration, has started again; of a system's log past a boot; or of a
// device in the guest to a driver that has it. It is nil if none does.
func (n entry) past(passed []entry) *entry {
	stage := n.stage
	if n.cause != nil && (stage == "" || stage == StageNode) {
		stage = n.cause.Stage
	}

	at := slices.Index(stages, cmp.Or(stage, StageStart))
	for _, p := range slices.Backward(passed) {
		if p.isBoot && p.source == n.source && p.number > n.number {
			return &p
		}

		isBeside := stages[at] == StageNode || stages[at] == StageStop || p.passed == StageNode
		isFurther := !isBeside && slices.Index(stages, p.passed) > at
		isPassed := p.passed == stages[at] && n.endsWith(p) &&
			(p.subject == n.subject || p.subject == "" || n.subject == "")
		isAnew := stages[at] == StageMigrate && p.passed == StageCreate ||
			n.isPlug && p.passed == StageStart
		if n.origin == nodes && n.isOverBy(p) {
			return &p
		}

		if (isFurther || isPassed || isAnew) && !n.isState && !p.isBoot && p.isAfter(n) {
			return &p
		}
	}

	return nil
}

// isOverBy reports whether what the node's kernel says of a device is over: the VM started since, or
// the device works again.
func (n entry) isOverBy(p entry) bool {
	isRecovered := p.passed == StageNode && p.subject != "" && p.subject == n.subject
	return isRecovered && p.source == n.source && p.number > n.number ||
		p.passed == StageStart && n.isSurelyBefore(p)
}

// endsWith reports whether what an entry says can be over once its stage is passed: in a guest only
// if it is that a driver does not have a device.
func (n entry) endsWith(p entry) bool {
	return p.passed != StageGuest || n.cause == nil || n.cause.Ends
}

// isAfter reports whether an entry is later than another one. Without a time it is so
// only in one file.
func (n entry) isAfter(other entry) bool {
	if n.at.IsZero() || other.at.IsZero() || n.at.Equal(other.at) {
		return n.source == other.source && n.number > other.number
	}
	return n.at.After(other.at)
}
