package cases

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Outcome is a case after its run.
type Outcome struct {
	Path        string
	Err         error // why the case cannot be read
	Differences []Difference
	Broken      []string // promises of the hook that do not hold
}

// Run reads and runs a case.
func Run(path string) (*Case, Outcome) {
	c, err := Read(path)
	o := Outcome{Path: path, Err: err}
	if err == nil {
		o.Differences, o.Broken, o.Err = c.Run()
	}
	return c, o
}

// IsFailed reports whether a case was read and is not as it wants.
func (o Outcome) IsFailed() bool {
	return o.Err == nil && len(o.Differences)+len(o.Broken) > 0
}

// Reason says in a line what is wrong with a case that failed.
func (o Outcome) Reason() string {
	var missing, differ, all []string
	for _, d := range o.Differences {
		if d.IsMissing {
			missing = append(missing, d.Section)
		} else {
			differ = append(differ, d.Section)
		}
	}

	if len(missing) > 0 {
		all = append(all, "no "+strings.Join(missing, " and no "))
	}
	if len(differ) > 0 {
		all = append(all, "other than "+strings.Join(differ, " and "))
	}

	for _, promise := range o.Broken {
		line, _, _ := strings.Cut(promise, ":\n")
		all = append(all, line)
	}

	return strings.Join(all, "; ")
}

// maxDomainLines limits the diff of a domain where that of its places says the same in short.
const maxDomainLines = 24

// Details returns the diffs of a case that failed. A terminal does not obey it.
func (o Outcome) Details() string {
	var b strings.Builder
	for i, d := range o.Differences {
		lines := slices.Collect(strings.Lines(d.Diff))
		if more := len(lines) - maxDomainLines; i > 0 && more > 1 {
			b.WriteString(strings.Join(lines[:maxDomainLines], ""))
			fmt.Fprintf(&b, "… %d more lines of the domain differ; --update writes them into %s\n",
				more, d.Section)
			continue
		}
		b.WriteString(d.Diff)
	}
	for _, promise := range o.Broken {
		b.WriteString(promise)
	}

	text := ""
	for line := range strings.Lines(b.String()) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		text += strings.Join(topology.Map(columns, words.Printable), "\t") + "\n"
	}

	return text
}
