package why

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
)

// evidence returns what texts have of VM vm.
func evidence(texts ...string) *Evidence {
	e := &Evidence{Report: Report{Name: "vm"}}
	for _, text := range texts {
		e.Add("a file", []byte(text))
	}
	return e
}

// fixtures returns what is printed for each cause: by its name the places where it was
// seen, with what was printed there.
func fixtures(t *testing.T) map[string][]txtar.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "causes", "*.txtar"))
	expect.NoError(t, err)
	all := map[string][]txtar.File{}
	for _, name := range names {
		cause := strings.TrimSuffix(filepath.Base(name), ".txtar")
		all[cause] = txtar.Parse(expect.File(t, name)).Files
	}

	return all
}

// TestCauses: what is printed at each place has one cause, besides those that it needs.
func TestCauses(t *testing.T) {
	for want, places := range fixtures(t) {
		for _, place := range places {
			if got := chief(evidence(string(place.Data)).Diagnose().Causes); got != want {
				t.Errorf("%s: found %s, want %s", place.Name, got, want)
			}
		}
	}
}

// TestNeeds: a cause that needs another one is in the table before it, and does not count alone.
func TestNeeds(t *testing.T) {
	all := Causes()
	for i, cause := range all {
		for _, need := range cause.Needs {
			isNeeded := func(c Cause) bool { return c.Name == need }
			if !slices.ContainsFunc(all[i+1:], isNeeded) {
				t.Errorf("%s needs %s, which is not after it", cause.Name, need)
			}
		}

		for _, message := range cause.Messages {
			found := evidence(strings.ReplaceAll(message, "*", "x")).Diagnose().Causes
			if len(cause.Needs) > 0 && len(found) > 0 {
				t.Errorf("%s: found %s", message, causes(found))
			}
		}
	}
}

// TestExplains: a cause explains others of the table, and none explains itself by way of them: both
// would be dropped.
func TestExplains(t *testing.T) {
	all := map[string]Cause{}
	for _, cause := range Causes() {
		all[cause.Name] = cause
	}

	var explains func(name, other string, depth int) bool
	explains = func(name, other string, depth int) bool {
		return depth < len(all) && slices.ContainsFunc(all[name].Explains, func(next string) bool {
			return next == other || explains(next, other, depth+1)
		})
	}

	for name, cause := range all {
		if explains(name, name, 0) {
			t.Errorf("%s explains itself", name)
		}
		for _, other := range cause.Explains {
			if all[other].Name == "" {
				t.Errorf("%s explains %s, which does not exist", name, other)
			}
		}
	}
}

// TestTable: names are unique, each message was seen somewhere, and the other columns are
// there.
func TestTable(t *testing.T) {
	all, names := fixtures(t), map[string]bool{}
	for _, cause := range Causes() {
		if names[cause.Name] || !slices.Contains(stages, cause.Stage) || cause.What == "" ||
			cause.Remedy == "" || len(cause.Messages) == 0 || len(cause.Seen) == 0 {
			t.Errorf("%s appears twice, or lacks a column", cause.Name)
		}

		names[cause.Name] = true
		for _, message := range cause.Messages {
			only := newIndex([]Cause{{Messages: []string{message}, Stage: cause.Stage}})
			if begin, _, _ := strings.Cut(message, "*"); strings.Count(message, "*") > 1 ||
				len(begin) < headSize || strings.ContainsAny(begin[:headSize], `"\<>&`) {
				t.Errorf("%s: %q has more than one *, fewer than %d bytes before it, or one "+
					"that JSON escapes among these", cause.Name, message, headSize)
			}

			isSeen := slices.ContainsFunc(all[cause.Name], func(place txtar.File) bool {
				e := &Evidence{Report: Report{Name: "vm"}, table: only}
				e.Add("a file", place.Data)
				for _, found := range e.entries {
					if found.cause != nil {
						return true
					}
				}

				return isFact(cause, string(place.Data))
			})

			if !isSeen {
				t.Errorf("%s: no fixture has the message %q", cause.Name, message)
			}
		}
	}
}

// isFact reports whether objects have a fact that names a cause.
func isFact(cause Cause, objects string) bool {
	return slices.ContainsFunc(evidence(objects).Diagnose().Causes, func(f FoundCause) bool {
		isFact := f.Line.Source == factSource || strings.HasPrefix(f.Line.Text, providerFails)
		return isFact && f.Name == cause.Name
	})
}

// TestWell: logs of VMs that are well have no cause, and no error that would be shown.
func TestWell(t *testing.T) {
	logs := txtar.Parse(expect.File(t, filepath.Join("testdata", "well.txtar"))).Files
	if len(logs) < 10 {
		t.Fatalf("%d logs", len(logs))
	}

	for _, log := range logs {
		e := evidence(string(log.Data))
		if !e.hasText && len(e.found) == 0 {
			t.Errorf("%s: no line", log.Name)
		}

		if r := e.Diagnose(); len(r.Causes)+len(r.Errors) > 0 {
			t.Errorf("%s: found %+v", log.Name, r)
		}
	}
}
