package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/why"
	"hook-sidecar/pkg/words"
)

// writeAnswer writes a report as text: the VM's state, the cause, what proves it, what to do.
func writeAnswer(b *bytes.Buffer, r why.Report) error {
	say := func(format string, args ...any) {
		fmt.Fprintln(b, words.Printable(fmt.Sprintf(format, args...)))
	}

	vm := "VM " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
	isWell := !r.Fails() && len(r.Causes) == 0
	switch {
	case r.State.Name == "unknown" && r.Started != nil && len(r.Causes) == 0:
		say("%s %s; it started (%s), and nothing that was read says that it ended", vm,
			r.State.Text, r.Started.Where())

	case r.State.Name == "running" && isWell:
		say("%s %s; kubectl hostdev explain %s shows where its devices are", vm, r.State.Text,
			r.Name)

	default:
		say("%s %s", vm, r.State.Text)
	}

	switch {
	case len(r.Causes) > 0:
		writeCause(say, r)
	case r.State.ToDo != "":
		say("to do:   %s", r.State.ToDo)
	case r.IsUnknown():
		writeUnknown(say, r)
	}

	if !r.IsUnknown() {
		for _, line := range unexplained(r) {
			say("error:   %s (%s)", line.Text, line.Where())
		}
	}

	for _, note := range r.State.Notes {
		say("note:    %s", note)
	}

	for _, f := range r.History {
		if f.Past == nil {
			say("past:    %s, %s", f.Name, f.Line.Where())
		} else {
			say("past:    %s, %s; later %s", f.Name, f.Line.Where(), f.Past.Where())
		}
	}

	for _, problem := range r.Installation {
		say("hook:    %s", problem)
	}

	for _, read := range r.Read {
		say("read:    %s: %s", read.Name, contents(read))
	}

	return nil
}

// unexplained returns the last errors that have no known cause. What a user gives is mentioned,
// whatever the cause is, and so are logs of other pods than the VM's; of its own, what says why it
// does not run where no cause is known.
func unexplained(r why.Report) (lines []why.Line) {
	const shown = 3
	for _, line := range r.Errors {
		isGiven := slices.ContainsFunc(r.Files, func(name string) bool {
			return line.Source == name || line.Source == "guest, "+name ||
				strings.HasPrefix(line.Source, name+": ")
		})
		isOwn := strings.Contains(line.Source, " of pod virt-launcher-")
		isTold := strings.HasPrefix(line.Source, "log of ") && (!isOwn || len(r.Causes) == 0)
		isOfCause := len(r.Causes) > 0 && r.Causes[0].Line.Source == line.Source
		if (isGiven || isTold) && !isOfCause && len(lines) < shown {
			lines = append(lines, line)
		}
	}

	return lines
}

// contents says what was read of a file.
func contents(read why.Read) string {
	var parts []string
	if read.Objects > 0 {
		parts = append(parts, words.Counted(read.Objects, "object"))
	}

	if read.Lines > 0 {
		lines := words.Counted(read.Lines, "line")
		if read.IsGuests {
			lines += " of the guest"
		}
		parts = append(parts, lines)
	}

	text := cmp.Or(strings.Join(parts, " and "), "nothing about the VM")
	switch {
	case read.Lines == 0: // of objects the answer says what counts
		return text
	case read.Failures == 0:
		return text + ", none looks like a failure"
	case read.Failures == 1:
		text += ", 1 looks like a failure"
	default:
		text += fmt.Sprintf(", %d look like failures", read.Failures)
	}

	switch {
	case read.Known == 0:
		text += ", none known"
	case read.Failures > read.Known:
		text += fmt.Sprintf(", %d known", read.Known)
	}

	if read.Others > 0 {
		text += fmt.Sprintf("; %d of other devices, pods or nodes than the VM's", read.Others)
	}

	return text
}

// writeCause writes the first cause, and names the others.
func writeCause(say func(string, ...any), r why.Report) {
	f := r.Causes[0]
	if f.Stage == why.StageMigrate {
		f.What = "a migration fails: " + f.What
	}

	if len(f.About) > 0 {
		f.What += " (" + strings.Join(f.About, ", ") + ")"
	}

	say("cause:   %s", f.What)
	say("message: %s", f.Line.Text)
	if f.First != nil {
		say("first:   %s", f.First.Text)
	}

	say("from:    %s", f.Line.Where())
	for _, share := range f.Shares {
		say("nodes:   %s", share)
	}

	say("to do:   %s", f.Remedy)
	if f.Check != "" {
		say("doctor:  %s%s", reasons.Page("docs/doctor.md#"), f.Check)
	}

	say("more:    %s%s, %s", reasons.Page("docs/causes.md#"), f.Name, f.Seen[0])
	for _, before := range r.Causes[1:] {
		say("before:  %s: %s (%s)", before.Name, before.Line.Text, before.Line.Where())
	}
}

// writeUnknown writes the last errors of a VM that does not run for no known cause.
func writeUnknown(say func(string, ...any), r why.Report) {
	text := "none that is known is in what was read"
	if len(r.Errors) > 0 && r.Errors[0].Speaker != "" {
		text += "; see what " + r.Errors[0].Speaker + " says"
	}

	say("cause:   %s", text)
	for _, line := range r.Errors {
		say("error:   %s (%s)", line.Text, line.Where())
	}

	say("To report it, attach what this writes: kubectl hostdev collect %s -n %s", r.Name,
		r.Namespace)
}
