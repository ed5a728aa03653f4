package why

import (
	"cmp"
	"slices"
	"time"
)

// Bursts: one failure makes a program print several lines within moments. The last of them ended
// the start, and the first mostly says why. Of what a guest or a node printed, First shows
// the first line beside the cause. Of a program's log that names no cause, Report.Errors has the
// lines of a burst in the order in which they were printed.

// isOfBurst reports whether two lines of a guest or a node are about one failure.
func (n entry) isOfBurst(first entry) bool { return n.isPrinted() && n.isNear(first) }

// firstOf returns the first line of the failure that an entry is the last of, in what a guest or a
// node printed; nil if that is the entry.
func (e *Evidence) firstOf(n entry) *Line {
	if !n.isPrinted() {
		return nil
	}

	// What the same source printed before it, but for what is about another device.
	var before []entry
	for _, o := range e.entries {
		isSame := o.source == n.source && o.origin == n.origin && o.passed == "" &&
			o.number < n.number && (o.subject == "" || n.subject == "" || o.subject == n.subject)
		if isSame && !isPrivate(o) {
			before = append(before, o)
		}
	}

	slices.SortFunc(before, func(x, y entry) int { return cmp.Compare(y.number, x.number) })
	first := n.beginning(before)
	if first.number == n.number || first.isRemoved() {
		return nil
	}

	line := first.show()
	return &line
}

// firstNear returns the first line that a program printed of the failure of which n is the last.
// The latest of errors comes first.
func firstNear(n entry, errors []entry) entry {
	if !n.isOfProgram() {
		return n
	}

	var before []entry
	for _, o := range errors {
		if o.kind() == n.kind() && o.isBefore(n) {
			before = append(before, o)
		}
	}

	return n.beginning(before)
}

// beginning returns the line that begins the burst which an entry ends: the earliest from which
// each line is near the next. The latest of those before it comes first.
func (n entry) beginning(before []entry) entry {
	first := n
	for _, o := range before {
		if !o.isNear(first) {
			break
		}
		first = o
	}

	return first
}

// beginFirst turns the bursts of programs around in lines of which the latest comes first: the
// first line of a burst says why, and the others what follows from it.
func beginFirst(shown []entry) {
	for start := 0; start < len(shown); {
		end := start + 1
		for shown[start].isOfProgram() && end < len(shown) && shown[end].kind() == shown[start].kind() &&
			shown[end].isNear(shown[end-1]) {
			end++
		}

		slices.Reverse(shown[start:end])
		start = end
	}
}

// isPrinted reports whether a guest or a node printed an entry, line by line.
func (n entry) isPrinted() bool { return (n.origin == guests || n.origin == nodes) && !n.isState }

// isOfProgram reports whether an entry is of the log of a program.
func (n entry) isOfProgram() bool { return n.isLog && n.origin != guests && n.origin != nodes }

// isNear reports whether two lines of one source belong to one failure, by when they were printed.
func (n entry) isNear(other entry) bool {
	const longest = 2 * time.Second
	x, y := n.at, other.at
	if x.IsZero() || y.IsZero() {
		x, y = n.stamp().clock, other.stamp().clock
	}
	return !x.IsZero() && !y.IsZero() && x.Sub(y).Abs() <= longest
}
