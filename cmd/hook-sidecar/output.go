package main

import (
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/terminal"
)

// write writes to a file, or to standard output when file is "" or "-".
func (a *app) write(file string, data []byte) error {
	return terminal.Write(a.out, file, data)
}

// warn prints warnings. Several of a kind share one hint.
func (a *app) warn(warnings []reasons.Warning) {
	for i, w := range warnings {
		a.say("warning: %s: %s", w.Code, w.Text)
		last := i == len(warnings)-1 || warnings[i+1].Code != w.Code
		if last && w.Remedy != "" {
			a.say("hint: %s", w.Remedy)
		}
	}
}
