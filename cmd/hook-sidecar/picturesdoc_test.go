package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/cli"
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
		"hgx-root.svg":         {"--domain", call1, "--vmi", vmi},
		"hgx-numa.svg":         {"--layout", "numa", "--domain", call1, "--vmi", vmi},
		"hgx-mirror.svg":       {"--layout", "mirror", "--domain", call1, "--vmi", vmi},
	} {
		var out, messages bytes.Buffer
		args = append([]string{"hook-sidecar", "explain", "--format", "svg", "--sysfs", filepath.Join(data, "hosts", "x86-2n8g-hgx-h100.txtar")}, args...)
		if code := run(t.Context(), args, nil, cli.Streams{Out: &out, Err: &messages}); code != cli.ExitDone {
			t.Fatalf("%v: exit status %d: %s", args, code, &messages)
		}
		file := filepath.Join("..", "..", "docs", "images", name)
		if *update {
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, out.Bytes()) {
			t.Errorf("%s differs from the output of explain; rewrite it with go test ./cmd/hook-sidecar -run PicturesDoc -update", file)
		}
	}
}
