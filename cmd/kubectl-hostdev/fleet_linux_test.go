package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hook-sidecar/test/apiserver"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

// BenchmarkFleet prints the table of 1,000 VMs with 16 devices on 100 nodes, where every
// command in a pod takes 200 ms: `make speed`.
func BenchmarkFleet(b *testing.B) {
	dir := b.TempDir()
	for name, from := range map[string]string{
		"dgx.json":   inputs["dgx.json"],
		"dgx.xml":    inputs["dgx.xml"],
		"host.txtar": inputs["host.txtar"],
	} {
		expect.NoError(b,
			os.WriteFile(filepath.Join(dir, name), expect.File(b, "../../"+from), 0o600))
	}

	var yaml strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&yaml, `---
{kind: VirtualMachineInstance, from: dgx.json, metadata: {name: vm-%[1]d, uid: vm-%[1]d}, status: {phase: Running, nodeName: gpu-%[2]d}}
---
kind: Pod
metadata: {name: pod-%[1]d, namespace: default, labels: {kubevirt.io: virt-launcher, kubevirt.io/created-by: vm-%[1]d}}
spec: {nodeName: gpu-%[2]d}
status: {phase: Running}
---
kind: Container
metadata: {name: compute, namespace: default}
pod: pod-%[1]d
commands:
- {command: virsh, file: dgx.xml, delay: 200}
- {command: sh -s, file: host.txtar, delay: 200}
`, i, i%100)
	}

	expect.NoError(b,
		os.WriteFile(filepath.Join(dir, "fleet.yaml"),
			[]byte(strings.TrimPrefix(yaml.String(), "---\n")), 0o600))

	served, err := apiserver.Read(dir, "fleet.yaml")
	expect.NoError(b, err)
	served.PageSize = 500
	server := served.Start()
	defer server.Close()
	binary := filepath.Join(dir, "kubectl-hostdev")
	expect.NoError(b, program.BuildPackage(binary, "../..", "./cmd/kubectl-hostdev"))

	for b.Loop() {
		cmd := exec.Command(binary, "explain", "--server", server.URL, "-n", "default")
		cmd.Env = []string{"HOME=" + dir}
		out, err := cmd.Output()
		expect.NoError(b, err)
		if rows := strings.Count(string(out), "root 112, mirror 120"); rows != 1000 {
			b.Fatalf("%d rows, want 1000", rows)
		}

		b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
	}
}
