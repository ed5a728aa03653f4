package test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// TestIndex: each line of the index names tests, and each of them exists.
func TestIndex(t *testing.T) {
	index := expect.File(t, "doc.go")
	rows := regexp.MustCompile(`(?m)^//\t(\S+) .*: (\S.*)$`).FindAllStringSubmatch(string(index),
		-1)
	if lines := strings.Count(string(index), "\n//\t"); len(rows) != lines || lines < 30 {
		t.Errorf("%d of %d lines name a package and its tests", len(rows), lines)
	}

	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join("..", row[1], "*_test.go"))
		expect.NoError(t, err)
		source := ""
		for _, file := range files {
			data := expect.File(t, file)
			source += string(data)
		}

		for _, name := range strings.Split(row[2], ", ") {
			if !strings.Contains(source, "\nfunc "+name+"(") {
				t.Errorf("%s has no %s", row[1], name)
			}
		}
	}
}
