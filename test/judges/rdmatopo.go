package judges

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// RDMATopo returns what rdma_topo check --virt of rdma-core says of each of its dumps: "ok", "fail",
// or the error with which it refuses a machine.
func (p Programs) RDMATopo(tb testing.TB, dumps []string) []string {
	tb.Helper()
	dir := expect.MemoryDir(tb)
	var files strings.Builder
	for i, dump := range dumps {
		file := filepath.Join(dir, fmt.Sprint(i))
		expect.NoError(tb, os.WriteFile(file, []byte(dump), 0o600))
		fmt.Fprintln(&files, file)
	}

	out := p.run(tb, nil, files.String(), nil, filepath.Join(p.root, "usr", "bin", "python3"),
		filepath.Join("rdmatopo", "check.py"), filepath.Join(p.root, "usr", "sbin", "rdma_topo"))
	answers := strings.Split(strings.TrimSpace(out), "\n")
	if len(answers) != len(dumps) {
		tb.Fatalf("rdma_topo: %d answers about %d dumps", len(answers), len(dumps))
	}

	return answers
}
