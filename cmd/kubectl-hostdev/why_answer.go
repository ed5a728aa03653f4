package main

import (
	"bytes"
	"fmt"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/why"
	"hook-sidecar/pkg/words"
)

// writeAnswer writes a report as text: the VM's state, the cause, what proves it, what to do.
func writeAnswer(b *bytes.Buffer, r why.Report) error {
	say := func(format string, args ...any) {
		fmt.Fprintln(b, words.Printable(fmt.Sprintf(format, args...)))
	}

	vm := "VM " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
	isWell := r.Runs() && r.State.Name != "paused" && len(r.Causes) == 0
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
	case !isWell && r.State.Name != "migrating":
		writeUnknown(say, r)
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

	if len(r.Files) > 0 {
		say("read:    %s", strings.Join(r.Files, ", "))
	}

	return nil
}

// writeCause writes the first cause, and names the others.
func writeCause(say func(string, ...any), r why.Report) {
	f := r.Causes[0]
	if f.Stage == why.StageMigrate {
		f.What = "a migration fails: " + f.What
	}

	say("cause:   %s", f.What)
	say("message: %s", f.Line.Text)
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
		say("before:  %s, %s", before.Name, before.Line.Where())
	}
}

// writeUnknown writes the last errors of a VM that does not run for no known cause.
func writeUnknown(say func(string, ...any), r why.Report) {
	say("cause:   none that is known is in what was read")
	for _, line := range r.Errors {
		say("error:   %s (%s)", line.Text, line.Where())
	}

	say("To report it, attach what this writes: kubectl hostdev collect %s", r.Name)
}
