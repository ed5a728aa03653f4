package main

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/pkg/fit"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/schema"
)

// TestGeneratedSchema holds the table of VMs and the answer of fit, of the scripts, to docs/schema.
func TestGeneratedSchema(t *testing.T) {
	schema.Check[vmTable](t, "../../docs/schema/vms.json", "kubectl hostdev explain -o json: the table of VMs", *update, scriptFile(t, "table.txtar", "all.json"))
	schema.Check[fit.Answer](t, "../../docs/schema/fit.json", "kubectl hostdev fit -o json", *update, scriptFile(t, "fit.txtar", "plugin.json"))
}

func scriptFile(t *testing.T, script, name string) []byte {
	t.Helper()
	for _, file := range txtar.Parse(expect.File(t, filepath.Join("testdata", "script", script))).Files {
		if file.Name == name {
			return file.Data
		}
	}
	t.Fatalf("%s has no %s", script, name)
	return nil
}
