package why

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
)

// made is a bundle that we made of what a program prints, before why was asked.
type made struct {
	thread
	from    string // the program that prints it, by its source
	about   string // what the evidence names of the cause
	first   string // a part of the line that is quoted first, where no cause is known
	speaker string // who says it
	shown   string // a part of what the nodes have
}

// madeBundles returns the bundles of a folder of testdata.
func madeBundles(t *testing.T, folder string) map[string]made {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	expect.NoError(t, err)
	all := map[string]made{}
	for _, name := range names {
		archive := txtar.Parse(expect.File(t, name))
		fields := map[string]string{}
		for line := range strings.Lines(string(archive.Comment)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fields[key] = value
		}

		all[strings.TrimSuffix(filepath.Base(name), ".txtar")] = made{
			thread: thread{vm: fields["vm"], cause: fields["cause"], files: archive.Files},
			from:   fields["from"], about: fields["about"], first: fields["first"],
			speaker: fields["speaker"], shown: fields["shown"],
		}
	}

	return all
}

// TestMade: of faults that the table did not have when the bundles were made, the cause is named
// with what the evidence has of it or, where none can be known, the right line comes first, with
// who says it. Of the first 24, 13 were so at once, and one was wrong, which named what an earlier boot
// had; of those from 25 on, 11 of 15.
func TestMade(t *testing.T) {
	all := madeBundles(t, "made")
	if len(all) < 20 {
		t.Errorf("%d bundles", len(all))
	}

	for name, m := range all {
		r := m.diagnose(t)
		if m.from == "" {
			t.Errorf("%s: no source", name)
		}

		if got := cmp.Or(chief(r.Causes), noCause); got != m.cause {
			t.Errorf("%s: %s, want %s: errors %+v", name, got, m.cause, r.Errors)
			continue
		}

		about, first, shares := []string(nil), Line{}, []string(nil)
		if len(r.Causes) > 0 {
			about, first, shares = r.Causes[0].About, r.Causes[0].Line, r.Causes[0].Shares
		} else if len(r.Errors) > 0 {
			first = r.Errors[0]
		}

		if m.about != "" && !slices.Contains(about, m.about) {
			t.Errorf("%s: names %q, want %q", name, about, m.about)
		}

		if !strings.Contains(first.Text, m.first) || m.speaker != "" && first.Speaker != m.speaker {
			t.Errorf("%s: first %+v, want %q of %q", name, first, m.first, m.speaker)
		}

		if m.first == "" && m.cause == noCause && len(r.Errors) > 0 {
			t.Errorf("%s: %+v", name, r.Errors)
		}

		if !strings.Contains(strings.Join(shares, "\n"), m.shown) {
			t.Errorf("%s: nodes %q, want %q", name, shares, m.shown)
		}
	}
}

// TestMadeWell: of VMs that are well nothing is named or quoted.
func TestMadeWell(t *testing.T) {
	all := madeBundles(t, "madewell")
	if len(all) < 10 {
		t.Errorf("%d bundles", len(all))
	}

	for name, m := range all {
		r := m.diagnose(t)
		if len(r.Causes)+len(r.Errors) > 0 || !r.Runs() || r.Fails() || len(r.State.Notes) > 0 {
			t.Errorf("%s: %s, notes %q, errors %+v, state %+v", name, causes(r.Causes), r.State.Notes,
				r.Errors, r.State)
		}
	}
}
