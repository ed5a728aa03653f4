package redact

import (
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// stamp matches the time at the start of a log's line, with what a logger prints beside it: kubectl
// logs --timestamps, a container's runtime, Python's logging, the kernel, klog, journalctl.
var stamp = lazyregexp.New(`^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? ` +
	`(?:std(?:out|err) [FP] |(?:[\w.-]+|-) [\w.-]+\[(?:\d{2,}|[A-Z]+)\]: )?|` +
	`\[ *\d+\.\d+\] (?:[\w.-]+\[\d{2,}\]: )?|` +
	`[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.-]+:\d+\] |` +
	`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w.-]+(?:\[\d+\])?: )+`)

// stamps are those of a text's lines; none if no line has one.
type stamps []string

// withoutStamps takes the stamps of a text with several lines away. What is secret in several
// lines, such as a block of YAML, can be found without them only.
func withoutStamps(text string) (string, stamps) {
	at := strings.IndexByte(text, '\n')
	if at < 0 || at == len(text)-1 {
		return text, nil
	}

	var b strings.Builder
	var all stamps
	hasStamp := false
	for line := range strings.Lines(text) {
		found := stamp.FindString(line)
		hasStamp = hasStamp || found != ""
		all = append(all, found)
		b.WriteString(line[len(found):])
	}

	if !hasStamp {
		return text, nil
	}

	return b.String(), all
}

// with returns a text with the stamps before its lines. It has as many lines as before, or fewer.
func (s stamps) with(text string) string {
	if s == nil {
		return text
	}

	var b strings.Builder
	for line := range strings.Lines(text) {
		found := ""
		if len(s) > 0 {
			found, s = s[0], s[1:]
		}
		b.WriteString(bareSecrets(found) + line)
	}

	return b.String()
}
