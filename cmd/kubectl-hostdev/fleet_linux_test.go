package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"hook-sidecar/test/apiserver"
	"hook-sidecar/test/expect"
	published "hook-sidecar/test/fleet"
	"hook-sidecar/test/program"
)

// fleet returns a directory with a cluster of 1,000 VMs with 16 devices on 100 nodes, where every
// command in a pod takes 200 ms and compute has a log, which serves that, and the program.
func fleet(b *testing.B, log string) (dir, server, binary string) {
	b.Helper()
	dir = b.TempDir()
	expect.NoError(b, os.WriteFile(filepath.Join(dir, "log"), []byte(log), 0o600))
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
status: {phase: Running, containerStatuses: [{name: compute, state: {running: {}}}]}
---
kind: Container
metadata: {name: compute, namespace: default}
pod: pod-%[1]d
logFile: log
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
	started := served.Start()
	b.Cleanup(started.Close)
	binary = filepath.Join(dir, "kubectl-hostdev")
	expect.NoError(b, program.BuildPackage(binary, "../..", "./cmd/kubectl-hostdev"))
	return dir, started.URL, binary
}

// BenchmarkFleet prints the table of a fleet: `make speed`.
func BenchmarkFleet(b *testing.B) {
	dir, server, binary := fleet(b, "")
	for b.Loop() {
		cmd := exec.Command(binary, "explain", "--server", server, "-n", "default")
		cmd.Env = []string{"HOME=" + dir}
		out, err := cmd.Output()
		expect.NoError(b, err)
		if rows := strings.Count(string(out), "mirror 8 GPUs direct, 120 pairs"); rows != 1000 {
			b.Fatalf("%d rows, want 1000:\n%.600s", rows, out)
		}

		b.ReportMetric(float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
	}
}

// BenchmarkCollect collects a VM of a fleet with a small log and a large one, and gets only that
// log, for comparison: `make speed`.
func BenchmarkCollect(b *testing.B) {
	const line = `{"component":"virt-launcher","level":"info","msg":"Domain is in state Running reason Unknown","pos":"client.go:303","timestamp":"2026-11-24T10:00:00.000000Z"}` + "\n"
	for name, lines := range map[string]int{"small": 100, "large": 100_000} {
		b.Run(name+"-log", func(b *testing.B) {
			log := strings.Repeat(line, lines)
			dir, server, binary := fleet(b, log)
			var alone time.Duration
			for b.Loop() {
				began := time.Now()
				answer, err := http.Get(server +
					"/api/v1/namespaces/default/pods/pod-7/log?container=compute")
				expect.NoError(b, err)
				read, err := io.Copy(io.Discard, answer.Body)
				expect.NoError(b, errors.Join(err, answer.Body.Close()))
				alone += time.Since(began)
				if read != int64(len(log)) {
					b.Fatalf("a log of %d bytes, want %d", read, len(log))
				}

				cmd := exec.Command(binary, "collect", "vm-7", "--server", server, "-n", "default",
					"--output-file", filepath.Join(dir, "vm.tar.gz"))
				cmd.Env = []string{"HOME=" + dir}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}

			each := float64(b.N)
			b.ReportMetric((b.Elapsed()-alone).Seconds()/each, "s/collect")
			b.ReportMetric(alone.Seconds()/each, "s/log")
			b.ReportMetric(float64(len(log))/(1<<20), "MiB")
		})
	}
}

// BenchmarkFit counts VMs of two GPUs and their NICs on clusters, as kubectl get -o json prints
// them: each node has eight GPUs and eight NICs, and a claim has two of the GPUs.
func BenchmarkFit(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "kubectl-hostdev")
	expect.NoError(b, program.BuildPackage(binary, "../..", "./cmd/kubectl-hostdev"))
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "cluster.json")
			writeCluster(b, file, nodes)
			for b.Loop() {
				cmd := exec.Command(binary, "fit", "--from", file,
					"--gpus", "2", "--gpu-class", published.NVIDIA().Class,
					"--nics", "2", "--nic-class", published.SRIOV().Class)
				out, err := cmd.Output()
				expect.NoError(b, err)
				if rows := strings.Count(string(out), "\nnode"); rows != nodes {
					b.Fatalf("%d nodes, want %d:\n%.600s", rows, nodes, out)
				}

				ended := cmd.ProcessState
				b.ReportMetric((ended.UserTime() + ended.SystemTime()).Seconds(), "s-CPU")
				b.ReportMetric(float64(ended.SysUsage().(*syscall.Rusage).Maxrss)/1024, "MiB")
			}
		})
	}
}

// writeCluster writes a cluster's objects one by one: the kernel counts the peak of this process as
// one of the program that it starts.
func writeCluster(b *testing.B, file string, nodes int) {
	b.Helper()
	f, err := os.Create(file)
	expect.NoError(b, err)
	out := bufio.NewWriter(f)
	gpus, nics := published.Host(b, "../../"+inputs["host.txtar"])
	separator := "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": ["
	write := func(object any) {
		data, err := json.MarshalIndent(object, "        ", "    ")
		expect.NoError(b, err)
		out.WriteString(separator + "\n        ")
		out.Write(data)
		separator = ","
	}

	write(published.NVIDIA().DeviceClass())
	write(published.SRIOV().DeviceClass())
	for i := range nodes {
		name := fmt.Sprint("node", i)
		node := published.Node(name)
		node.Kind, node.APIVersion = "Node", "v1"
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: name}}
		pod.Kind, pod.APIVersion, pod.Name, pod.Namespace = "Pod", "v1", name, "kube-system"
		slice := published.NVIDIA().Slice(name, gpus)
		for j := range slice.Spec.Devices {
			uuid := fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", i, j)
			slice.Spec.Devices[j].Attributes["uuid"] = resourceapi.DeviceAttribute{
				StringValue: &uuid,
			}
		}

		for _, object := range []any{
			node, pod, slice, published.SRIOV().Slice(name, nics),
			published.Allocated(name, slice, i%3, i%3+3),
		} {
			write(object)
		}
	}

	out.WriteString("]}\n")
	expect.NoError(b, errors.Join(out.Flush(), f.Close()))
}
