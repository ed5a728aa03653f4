//go:build linux

package sidecar

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
)

// wrapped returns lines of a log as KubeVirt's sidecar-shim logs them, after a line of its own
// (KubeVirt cmd/sidecars/sidecar_shim.go, logStderr).
func wrapped(t *testing.T, log []byte) []byte {
	t.Helper()
	out := bytes.NewBuffer(nil)
	line := func(text string) {
		expect.NoError(t, json.NewEncoder(out).Encode(map[string]string{
			"component": "shim-sidecar", "hook": "onDefineDomain", "level": "info", "msg": text,
			"pos": "sidecar_shim.go:252", "timestamp": "2026-11-22T10:00:00.000000Z",
		}))
	}

	line("Executing onDefineDomain")
	for text := range strings.Lines(string(log)) {
		line(strings.TrimSuffix(text, "\n"))
	}

	return out.Bytes()
}

// TestLogQueries: the commands of docs/reasons.md find the devices and the warnings in
// the program's log, as it is and under KubeVirt's sidecar-shim.
func TestLogQueries(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip(err)
	}

	domain, host := onDevices(2)
	sys := expect.HostDir(t, expect.Host(t, host))
	var log bytes.Buffer
	program := exec.Command(built(t), "onDefineDomain", "--sysfs", sys, "--domain", string(domain),
		"--vmi",
		`{"kind":"VirtualMachineInstance","metadata":{"name":"a",`+
			`"annotations":{"hostdev.vm.kubevirt.io/colour":"red"}}}`)
	program.Stderr = &log
	expect.NoError(t, program.Run())

	page := expect.File(t, filepath.Join("..", "..", "docs", "reasons.md"))
	queries := regexp.MustCompile(`(?m)^kubectl logs .*\| (jq .*)$`).FindAllSubmatch(page, -1)

	// One line per device, and one warning.
	want := []string{`^\{"alias":"ua-gpu-0","id":"0000:02:00.0","outcome":"placed","reason":"memnode"}
\{"alias":"ua-gpu-1","id":"0000:03:00.0","outcome":"placed","reason":"memnode"}
$`, `^\{"code":"unknown-policy-key","text":"unknown annotation hostdev.vm.kubevirt.io/colour: [^"]*","remedy":"[^"]+"}
$`}

	if len(queries) != len(want) {
		t.Fatalf("the page has the queries %q", queries)
	}

	for i, query := range queries {
		for name, lines := range map[string][]byte{
			"its own": log.Bytes(), "the shim's": wrapped(t, log.Bytes()),
		} {
			jq := exec.Command("sh", "-c", string(query[1]))
			jq.Stdin = bytes.NewReader(lines)
			if got, err := jq.CombinedOutput(); err != nil ||
				!regexp.MustCompile(want[i]).Match(got) {
				t.Errorf("%s of %s log: %v\n%s", query[1], name, err, got)
			}
		}
	}
}
