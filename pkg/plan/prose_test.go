package plan_test

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
)

var (
	// conclusion is what a case's prose says about its layout: So it is root, so it is not mirror.
	conclusion = regexp.MustCompile(`\b[Ss]o\s+it\s+is\s+(not\s+)?(keep|numa|root|switch|mirror)\b`)

	// built is the layout in the first line of want.txt.
	built = regexp.MustCompile(`^layout ([a-z]+): `)
)

// TestProse: a case that concludes which layout a domain gets, or does not get, wants that.
func TestProse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "testdata", "cases", "*.txtar"))
	expect.NoError(t, err)
	concluded := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		expect.NoError(t, err)
		said := conclusion.FindSubmatch(archive.Comment)
		if said == nil {
			continue
		}

		concluded++
		for _, section := range archive.Files {
			wanted := built.FindSubmatch(section.Data)
			if section.Name == "want.txt" && wanted != nil &&
				bytes.Equal(wanted[1], said[2]) != (len(said[1]) == 0) {
				t.Errorf("%s says %q and wants layout %s", filepath.Base(file), said[0], wanted[1])
			}
		}
	}

	if concluded == 0 {
		t.Error("no case concludes anything")
	}
}
