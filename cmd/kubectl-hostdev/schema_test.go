package main

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/tools/cluster/why"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/schema"
)

// TestGeneratedSchema holds the JSON of the scripts to docs/schema.
func TestGeneratedSchema(t *testing.T) {
	schema.Check[vmTable](t, "../../docs/schema/vms.json",
		"kubectl hostdev explain -o json: the table of VMs", *update, outputs(t, "table",
			"all.json")...)

	schema.Check[why.Report](t, "../../docs/schema/why.json", "kubectl hostdev why -o json",
		*update,
		outputs(t, "why", "memlock.json", "nonode.json", "unknown.json")...)

	schema.Check[fit.Answer](t, "../../docs/schema/fit.json", "kubectl hostdev fit -o json",
		*update, outputs(t, "fit", "plugin.json")...)

	schema.Check[fit.Check](t, "../../docs/schema/fit-check.json",
		"kubectl hostdev fit --check CLAIM -o json", *update, outputs(t, "fit-check", "pairs.json")...)
}

// outputs returns files of a script.
func outputs(t *testing.T, script string, names ...string) (found [][]byte) {
	t.Helper()
	for _, file := range txtar.Parse(expect.File(t,
		filepath.Join("testdata", "script", script+".txtar"))).Files {
		if slices.Contains(names, file.Name) {
			found = append(found, file.Data)
		}
	}

	if len(found) != len(names) {
		t.Fatalf("script %s has %d of the files %q", script, len(found), names)
	}

	return found
}
