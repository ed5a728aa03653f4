package why

import (
	"cmp"
	"slices"
	"strings"

	"hook-sidecar/pkg/tools/cluster/redact"
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

// isBefore reports whether an entry comes before another one where all are in order.
func (n entry) isBefore(other entry) bool {
	return cmp.Or(n.at.Compare(other.at), cmp.Compare(n.number, other.number)) < 0
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

// kind returns the kind of an entry's source: events, conditions and states of objects, and each
// log or file.
func (n entry) kind() string {
	kind, _, isObject := strings.Cut(n.source, " ")
	if isObject && n.origin == "" && !n.isLog {
		return kind
	}
	return n.source + n.origin
}

// isLast reports whether an error ends a start, and is not what others make of such an error.
func (n entry) isLast() bool {
	line := n.plainLine()
	return isLast(n.speaker(line)) || strings.Contains(line, "panic: ")
}

// isRemoved reports whether nothing is left of an error without its secrets.
func (n entry) isRemoved() bool { return strings.Trim(n.show().Text, redact.Mark+" ") == "" }

// isPrivate reports whether an error is one of cloud-init in the guest, or about a password, which
// may be anywhere in it.
func isPrivate(n entry) bool {
	text := strings.ToLower(n.plainLine())
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
	text := form(n.plainLine())
	if _, message, found := strings.Cut(text, "Message='"); found {
		text = message
	}
	return strings.TrimRight(text, `'")`+" ")
}
