// Package cases loads the golden cases of testdata/cases for tests, by package
// hook-sidecar/pkg/tools/cases. Each has a comment that says why it exists and why its outcome is
// right.
package cases

import (
	"bytes"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hook-sidecar/pkg/tools/cases"
	"hook-sidecar/test/expect"
)

// Case is one golden case.
type Case = cases.Case

// Load loads every case in root/testdata/cases; root is the module's directory as
// seen from the test.
func Load(tb testing.TB, root string) []*Case {
	tb.Helper()
	return Sampled(tb, root, 1)
}

// Sampled loads every step-th case, with WHOLE=1 each (expect.IsSampled).
func Sampled(tb testing.TB, root string, step int) (all []*Case) {
	tb.Helper()
	files, err := cases.Find(filepath.Join(root, "testdata", "cases"))
	expect.NoError(tb, err)
	for i, file := range files {
		if expect.IsSampled(i, step) {
			all = append(all, read(tb, file))
		}
	}

	return all
}

// Named loads the case with a name.
func Named(tb testing.TB, root, name string) *Case {
	tb.Helper()
	return read(tb, filepath.Join(root, "testdata", "cases", name+cases.Ending))
}

// known has the cases that have been read, by file: the tests of a package load all ten times.
var known sync.Map

// read returns a case that is the caller's.
func read(tb testing.TB, file string) *Case {
	tb.Helper()
	c, isKnown := known.Load(file)
	if !isKnown {
		c, _ = known.LoadOrStore(file, parse(tb, file))
	}

	own := *c.(*Case)
	own.Planner.Flags = maps.Clone(own.Planner.Flags)
	own.Request.Domain = bytes.Clone(own.Request.Domain)
	own.Request.VMI = bytes.Clone(own.Request.VMI)
	return &own
}

func parse(tb testing.TB, file string) *Case {
	tb.Helper()
	c, err := cases.Read(file)
	expect.NoError(tb, err)
	if strings.TrimSpace(c.Comment()) == "" {
		tb.Fatalf("%s: the case has no comment that says why it exists", file)
	}

	return c
}
