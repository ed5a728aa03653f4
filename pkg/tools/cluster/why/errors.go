package why

import (
	"slices"
	"strings"
)

// maxErrors limits the errors that name no cause, but for the last of each source.
const maxErrors = 5

// sinceStart returns the errors of a VM that runs: those since its start, of its migration, and those
// that a user gives because it does not work, of the guest and of the node's kernel. What kept it
// from a node is over.
func (e *Evidence) sinceStart(errors, passed []entry) []entry {
	return slices.DeleteFunc(errors, func(n entry) bool {
		isBefore := func(start entry) bool {
			return start.passed == StageStart && n.isSurelyBefore(start)
		}

		switch {
		case n.stage == StageGuest || n.stage == StageNode || n.stage == StageMigrate:
			return false
		case n.stage == StageSchedule:
			return true
		case n.program != "":
			return !n.isSaid(e) || slices.ContainsFunc(passed, isBefore)
		}

		return !slices.ContainsFunc(passed, func(start entry) bool {
			return start.passed == StageStart && start.isBefore(n)
		})
	})
}

// isSaid reports whether a program of a node says itself that a line is an error, or names the VM: what
// only looks so is in the journals of healthy nodes.
func (n entry) isSaid(e *Evidence) bool {
	line := n.plainLine()
	rest := (&message{}).setHost(line)
	if n.program == "kubelet" || strings.HasPrefix(n.program, "container") || n.program == "crio" {
		return e.isNamedIn(line)
	}
	return isErrorText(rest) || hasAnyPrefix(level(rest), "e", "f", "panic", "crit")
}

// mostTelling returns the lines of errors, of which the latest comes first: the last of each source,
// and the next latest while there are few. What ends a start comes before what others make of it.
func mostTelling(errors []entry) []Line {
	var shown []entry
	hasLast := map[string]bool{}
	for _, isRest := range []bool{false, true} {
		for _, n := range errors {
			if hasLast[n.kind()] != isRest || isRest && len(shown) >= maxErrors ||
				isRepeated(n, shown) || n.isRemoved() {
				continue
			}
			shown, hasLast[n.kind()] = append(shown, n), true
			first := firstNear(n, errors) // it says why
			if !isRest && !isRepeated(first, shown) && !first.isRemoved() {
				shown = append(shown, first)
			}
		}
	}

	slices.SortStableFunc(shown, func(x, y entry) int {
		switch {
		case x.isLast() && !y.isLast():
			return -1
		case y.isLast() && !x.isLast(), x.isBefore(y):
			return 1
		}
		return -1
	})

	beginFirst(shown)
	lines := []Line{}
	for _, n := range shown {
		lines = append(lines, n.show())
	}

	return lines
}

// isLast reports whether an error ends a start, and is not what others make of such an error.
func (n entry) isLast() bool {
	line := n.plainLine()
	return isLast(n.speaker(line)) || strings.Contains(line, "panic: ")
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
	text := form(n.plainLine())
	if _, message, found := strings.Cut(text, "Message='"); found {
		text = message
	}
	return strings.TrimRight(text, `'")`+" ")
}
