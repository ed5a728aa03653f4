package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/test/apiserver"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/secrets"
)

// pod is that of the VM of secrets.Objects.
const pod = "virt-launcher-kept-dgx-x7k2p"

// TestCollectSecrets: a secret in each place of each object, of the domain, of the environment, and
// in each spelling in a log and in an event is in no file of an archive.
func TestCollectSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}

	write("cluster.yaml", plantedCluster(t))
	write("domain.xml", secrets.Domain)
	log, before := plantedLogs(t)
	write("log", log)
	write("before", before)
	served, err := apiserver.Read(dir, "cluster.yaml")
	expect.NoError(t, err)
	server := served.Start()
	defer server.Close()

	made := filepath.Join(dir, "made")
	var out, errs bytes.Buffer
	status := run(t.Context(), []string{
		"collect", "kept-dgx", "-n", "default", "--server", server.URL, "--directory", made,
	}, nil, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})

	if status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}

	var files []string
	expect.NoError(t, filepath.WalkDir(made, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		files = append(files, filepath.Base(name))
		data := string(expect.File(t, name))
		for line := range strings.Lines(data) {
			if strings.Contains(line, secrets.Planted) {
				t.Errorf("%s: %s", name, line)
			}
		}

		return nil
	}))

	for _, want := range []string{
		"collected.yaml", "virtualmachines.json", "virtualmachineinstances.json", "pods.json",
		"events.json",
		"nodes.json", "kubevirts.json", "plugins.json", "resourceclaims.json", "compute.log",
		"compute.previous.log", "domain.xml", "variables.txt", "persistentvolumeclaims.json",
		"datavolumes.json", "virtualmachineinstancemigrations.json",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("no file %s of %q: %s", want, files, errs.String())
		}
	}
}

// plantedCluster returns a cluster with the objects of package secrets, whose VM runs.
func plantedCluster(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	add := func(object map[string]any) {
		data, err := yaml.Marshal(object)
		expect.NoError(t, err)
		b.WriteString(string(data) + "\n---\n")
	}

	isOfCluster := []string{"Node", "Plugin", "MutatingAdmissionPolicy", "Secret"}
	for kind, text := range secrets.Objects {
		var object map[string]any
		expect.NoError(t, yaml.Unmarshal([]byte(text), &object))
		metadata := object["metadata"].(map[string]any)
		if !slices.Contains(isOfCluster, kind) {
			metadata["namespace"] = "default"
		}

		if kind == "Event" {
			object["involvedObject"] = map[string]any{
				"kind": "Pod", "namespace": "default", "name": pod,
			}
		}

		if kind == "Pod" {
			metadata["name"] = pod
			running := map[string]any{"running": map[string]any{}}
			ended := map[string]any{
				"terminated": map[string]any{"exitCode": 1, "message": "TOKEN=" + secrets.Planted},
			}

			object["status"] = map[string]any{"phase": "Running", "containerStatuses": []any{
				map[string]any{"name": "compute", "state": running, "lastState": ended},
			}}
		}

		add(object)
	}

	for name, spelling := range secrets.Spellings {
		add(map[string]any{
			"kind": "Event",
			"metadata": map[string]any{
				"name": strings.ReplaceAll(name, " ", "-"), "namespace": "default",
			},
			"involvedObject": map[string]any{
				"kind": "VirtualMachineInstance", "namespace": "default", "name": "kept-dgx",
			},
			"message": spelling,
		})
	}

	fmt.Fprintf(&b, `kind: Container
metadata: {name: compute, namespace: default}
pod: %s
logFile: log
commands:
- {command: virsh, file: domain.xml}
- command: env -0
  stdout: "GREETING=%s\0"
`, pod, secrets.Planted)

	return b.String()
}

// plantedLogs returns a log with each spelling as text, and one with each in JSON.
func plantedLogs(t *testing.T) (log, before string) {
	t.Helper()
	for _, spelling := range secrets.Spellings {
		entry, err := json.Marshal(map[string]string{
			"level": "info", "msg": spelling, "reason": spelling,
		})

		expect.NoError(t, err)
		log += string(entry) + "\n2026-11-22T10:00:00Z " + spelling + "\n"
		before += spelling + "\n"
	}

	return log, before
}

// endsAfter is a context that is done when it was asked some times.
type endsAfter struct {
	context.Context
	left int
}

// Err implements context.Context.
func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestCollectInterrupted: a user who stops collect while it writes a directory finds none, however
// many files were written.
func TestCollectInterrupted(t *testing.T) {
	made := &archive.Archive{}
	for _, name := range []string{"a/1.log", "b/2.log", "c/3.log"} {
		made.Files = append(made.Files, archive.File{Name: name, Data: []byte("a line\n")})
	}

	a := &app{}
	for written := range len(made.Files) + 1 {
		to := filepath.Join(t.TempDir(), "made")
		_, err := a.writeDirectory(&endsAfter{t.Context(), written}, made, to)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d files: error %v", written, err)
		}

		if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after %d files the directory is there: %v", written, err)
		}
	}
}

// crowd is a namespace with VMs that run, each with a pod that has logs before and after a restart.
func crowd(vms int) string {
	var b strings.Builder
	for i := range vms {
		fmt.Fprintf(&b, `---
kind: VirtualMachineInstance
metadata: {name: vm-%[1]d, namespace: default, uid: uid-%[1]d}
status: {phase: Running, nodeName: node-1}
---
kind: Pod
metadata:
  name: pod-%[1]d
  namespace: default
  labels: {kubevirt.io: virt-launcher, kubevirt.io/created-by: uid-%[1]d}
spec: {nodeName: node-1}
status:
  phase: Running
  containerStatuses:
  - {name: compute, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}
---
kind: Event
metadata: {name: of-%[1]d, namespace: default}
involvedObject: {kind: Pod, namespace: default, name: pod-%[1]d}
---
kind: Container
metadata: {name: compute, namespace: default}
pod: pod-%[1]d
log: a line
previous: a line from before
commands:
- {command: virsh, stdout: "<domain type='kvm'><name>default_vm-%[1]d</name></domain>"}
- {command: env, stdout: "A=b"}
- {command: sh -s, stdout: ""}
`, i)
	}

	return strings.TrimPrefix(b.String(), "---\n")
}

// requests returns how many requests collect sends for VMs of a namespace with others.
func requests(t *testing.T, collected, others int) int {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"),
		[]byte(crowd(collected+others)), 0o600))
	served, err := apiserver.Read(dir, "cluster.yaml")
	expect.NoError(t, err)
	served.PageSize = 500

	var sent atomic.Int64
	cluster := served.Start()
	defer cluster.Close()
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		cluster.Config.Handler.ServeHTTP(w, r)
	}))
	defer counting.Close()

	args := []string{"collect", "-n", "default", "--server", counting.URL, "--output-file", "-"}
	for i := range collected {
		args = append(args, fmt.Sprint("vm-", i))
	}

	var out, errs bytes.Buffer
	if status := run(t.Context(), args, nil, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs,
	}); status != 0 {
		t.Fatalf("exit status %d: %s", status, errs.String())
	}

	return int(sent.Load())
}

// TestCollectRequests: collect sends as many requests in a namespace of 300 VMs, one page of a list,
// as in one that has no other, and the same few for each further VM: its VM and VMI, two logs, and a command each for the
// domain, the versions, the variables and the node's devices.
func TestCollectRequests(t *testing.T) {
	alone, crowded := requests(t, 1, 0), requests(t, 1, 300)
	if alone != crowded {
		t.Errorf("%d requests for the only VM, %d beside 300", alone, crowded)
	}

	const most = 8
	last := alone
	for vms := 2; vms <= 4; vms++ {
		now := requests(t, vms, 10)
		if more := now - last; more < 1 || more > most {
			t.Errorf("%d requests for %d VMs, %d more than for one less, want at most %d", now, vms,
				more, most)
		}

		last = now
	}

	t.Logf("%d requests for one VM", alone)
}
