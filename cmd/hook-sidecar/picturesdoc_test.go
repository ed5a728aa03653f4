package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/tools/cli"
	"hook-sidecar/test/expect"
)

// TestPicturesDoc compares the pictures of docs/explain.md with the output of
// explain: KubeVirt's domain on the demo's host as libvirt has it without the hook,
// and with two layouts. -update rewrites them.
func TestPicturesDoc(t *testing.T) {
	data := filepath.Join("..", "..", "testdata")
	before := filepath.Join(data, "samples", "02-8gpu-8nic-gate-off.libvirt9-inactive.xml")
	call1 := filepath.Join(data, "samples", "02-8gpu-8nic-gate-off.xml")
	vmi := filepath.Join(data, "samples", "02-8gpu-8nic-gate-off.vmi.json")
	for name, args := range map[string][]string{
		"hgx-without-hook.svg": {"--as-is", "--domain", before},
		"hgx-numa.svg":         {"--layout", "numa", "--domain", call1, "--vmi", vmi},
		"hgx-mirror.svg":       {"--layout", "mirror", "--domain", call1, "--vmi", vmi},
	} {
		var out, messages bytes.Buffer
		args = append([]string{
			"hook-sidecar", "explain", "-o", "svg", "--sysfs",
			filepath.Join(data, "hosts", "x86-2n8g-hgx-h100.txtar"),
		}, args...)

		if code := run(t.Context(), args, nil, cli.Streams{
			Out: &out, Err: &messages,
		}); code != cli.ExitDone {
			t.Fatalf("%v: exit status %d: %s", args, code, &messages)
		}

		expect.Golden(t, *update, filepath.Join("..", "..", "docs", "images", name), out.Bytes())
	}
}
