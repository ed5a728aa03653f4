package why

import "strings"

// Read says what was read of a file.
type Read struct {
	Name     string `json:"name"`     // of the file
	Objects  int    `json:"objects"`  // how many objects it has
	Lines    int    `json:"lines"`    // of logs and outputs, without empty ones
	IsGuests bool   `json:"isGuests"` // the guest printed it
	Failures int    `json:"failures"` // how many messages about the VM look like failures
	Known    int    `json:"known"`    // how many of these name a cause
	Others   int    `json:"others"`   // how many of them are about other devices, pods or nodes than the VM's
}

// addLines counts the lines of a text. A nil Read counts nothing.
func (r *Read) addLines(text string) {
	if r == nil {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			r.Lines++
		}
	}
}

// count counts a failure, which names a cause if it is known.
func (r *Read) count(isKnown bool) {
	if r == nil {
		return
	}
	r.Failures++
	if isKnown {
		r.Known++
	}
}

// countOther counts a failure that is about something else than the VM.
func (r *Read) countOther() {
	if r != nil {
		r.Others++
	}
}

// countObject counts an object.
func (r *Read) countObject() {
	if r != nil {
		r.Objects++
	}
}
