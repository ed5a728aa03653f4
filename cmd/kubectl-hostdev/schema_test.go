package main

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/schema"
)

// TestGeneratedSchema holds the table of the script to docs/schema.
func TestGeneratedSchema(t *testing.T) {
	var tables [][]byte
	for _, file := range txtar.Parse(expect.File(t, filepath.Join("testdata", "script", "table.txtar"))).Files {
		if file.Name == "all.json" {
			tables = append(tables, file.Data)
		}
	}
	schema.Check[vmTable](t, "../../docs/schema/vms.json", "kubectl hostdev explain -o json: the table of VMs", *update, tables...)
	if len(tables) != 1 {
		t.Errorf("%d tables, want 1", len(tables))
	}
}
