package verdict_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
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

// TestBind: a device that another driver holds is bound by a line of a shell, which names it and the
// driver of its vendor. A GPU whose own switch has a NIC that cannot work lacks no tree: it gets no step
// and no wish for one, and the first line names the NIC.
func TestBind(t *testing.T) {
	m := pastes.Parse(t, twoSwitches)
	works := strings.ReplaceAll(pastes.Named("lspci -vv").Print(m), "vfio-pci", "mlx5_core")
	held := regexp.MustCompile(`(?s)(\n14:00\.0 .*?driver in use: )mlx5_core`).
		ReplaceAllString(works, "${1}vfio-pci")
	read, _, err := paste.Read([]byte(held))
	expect.NoError(t, err)
	v := verdict.New(read, nil)
	if v.Outcome != verdict.Partly ||
		!strings.HasPrefix(v.Cost, "14:00.0 has the driver vfio-pci") {
		t.Errorf("%s: %s", v.Outcome, v.Cost)
	}

	expect.Same(t, "the NIC of its switch does not work", v.GPUs[0].Why, "why (-want +got)")
	expect.Same(t, []string{}, v.Send, "to send (-want +got)")
	var lines []string
	for _, step := range v.Steps {
		lines = append(lines, step.Text...)
	}

	all := strings.Join(lines, "\n")
	if strings.Contains(all, "NCCL_NET_GDR_LEVEL") {
		t.Errorf("a level in %s", all)
	}

	for _, part := range []string{"sudo modprobe mlx5_core;", "for d in 0000:14:00.0;",
		"driver_override", "driver/unbind", "drivers_probe"} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("no %q in %s", part, lines[0])
		}
	}

	if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", lines[0]).CombinedOutput(); err != nil {
		t.Errorf("%s: %s", lines[0], out)
	}

	if strings.Contains(all, "-e 4G") || !strings.Contains(all, "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
		t.Errorf("steps: %s", all)
	}
}
