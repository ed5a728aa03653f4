package verdict_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
)

// TestStepsRun: the lines to copy are commands of a shell, and those that bind a process start it on
// its GPU's node. Programs that a guest has are stand-ins, which start the process with local rank 2.
func TestStepsRun(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"torchrun": "shift 3\nLOCAL_RANK=2 exec \"$@\"",
		"mpirun":   "[ \"$3\" = --bind-to ] || exit 0\nshift 4\nOMPI_COMM_WORLD_LOCAL_RANK=2 exec \"$@\"",
		"numactl":  "echo numactl \"$@\"",
		"lsmod":    "echo nvidia_peermem 1", "modinfo": "echo license: Dual MIT/GPL",
	} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}

	run := func(line string) string {
		c := exec.CommandContext(t.Context(), "sh", "-c", "set -e; "+line)
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		return string(out)
	}

	bound := 0
	for _, text := range []string{storageNIC, oneNIC, strings.ReplaceAll(storageNIC, "PXB", "PHB")} {
		m, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		hasThree := strings.Contains(text, "GPU2")
		for _, step := range verdict.New(m, nil).Steps {
			for _, line := range step.Text {
				isBinding := strings.Contains(line, "n=(")
				if strings.HasPrefix(line, "hook-sidecar ") || isBinding && !hasThree {
					continue
				}

				out := run(line)
				if !isBinding {
					continue
				}

				bound++
				if !strings.HasPrefix(out, "numactl -N 1 -m 1 python train.py\n") &&
					!strings.HasPrefix(out, "numactl -N 1 -m 1 ./all_reduce_perf -b 8M") {
					t.Errorf("%s: %s", line, out)
				}
			}
		}
	}

	if bound < 4 {
		t.Errorf("%d lines bind processes", bound)
	}
}
