package why

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/words/lazyregexp"
)

// waitsFor returns what the scheduler said last if the VM still waits for a node, else "".
func (e *Evidence) waitsFor() (last string) {
	if e.Node != "" {
		return ""
	}

	for _, n := range e.inOrder() {
		switch {
		case n.passed == StageSchedule:
			last = ""
		case n.cause != nil && n.cause.Stage == StageSchedule && n.source != factSource:
			last = n.plainLine()
		}
	}

	return last
}

// lacking returns the resources that the scheduler reports as insufficient.
func lacking(message string) (names []corev1.ResourceName) {
	for _, match := range insufficient.FindAllStringSubmatch(message, -1) {
		if name := corev1.ResourceName(match[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// insufficient is a device, or a size of hugepages, in the scheduler's message.
var insufficient = lazyregexp.New(`Insufficient ([\w.-]+/[\w.-]*\w|hugepages-\w+)`)
