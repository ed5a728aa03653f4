package abuse

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTable: each row of docs/reliability.md names tests, and each of them exists.
func TestTable(t *testing.T) {
	top := filepath.Join("..", "..")
	doc, err := os.ReadFile(filepath.Join(top, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/-]+)` ((?:Test|Fuzz)[A-Za-z0-9]+)")
	rows := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(strings.TrimSpace(line), "| held by |") {
			continue
		}
		rows++
		found := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(found) == 0 {
			t.Errorf("the row names no test: %s", line)
		}
		for _, test := range found {
			if !declared(t, filepath.Join(top, test[1]), test[2]) {
				t.Errorf("%s has no %s", test[1], test[2])
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows, want the table", rows)
	}
}

// declared reports whether a directory's tests have the function.
func declared(t *testing.T, dir, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
