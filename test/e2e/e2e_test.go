//go:build lane

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/program"
)

// imageVariable names the environment variable with the directory that get-image
// has filled.
const imageVariable = "E2E_IMAGE"

// attempts are how often a node is started that is lost before the next guest has run to
// its end. A guest that has is not run again.
const attempts = 3

func TestEndToEnd(t *testing.T) {
	results := run(t, inners())
	for _, i := range inners() {
		t.Run(i.name, func(t *testing.T) {
			guest, err := boot.ReadGuest(results.file(t, i.name+".console"))
			expect.NoError(t, err)
			planned, plan := &boot.Explained{}, &boot.Explained{}
			results.read(t, i.name+".planned.json", planned)
			checkOutcomes(t, i, planned, "placed", "memnode")

			// In libvirt's readback every device is aligned.
			results.read(t, i.name+".explained.json", plan)
			checkOutcomes(t, i, plan, "kept", "already-aligned")
			found := Seen(i.devices, guest)
			if d := cmp.Diff(plan.Expectations(), found); d != "" || len(found) != len(i.devices) {
				t.Errorf("%d of %d devices (-planned +in the inner guest):\n%s", len(found),
					len(i.devices), d)
			}

			node, err := NodeSpots(results.file(t, "host.txtar"), i.devices)
			expect.NoError(t, err)
			checkPathTypes(t, i, node, GuestSpots(guest, i.devices))
			checkLinks(t, i, results)
			checkSnapshot(t, i, results)
			checkCompared(t, i, results)
			checkDoctor(t, i, results)
			if string(results.file(t, i.name+".domain.xml")) != string(results.file(t, i.name+
				".plugin.xml")) {
				t.Error("the plugin's MutateDomain and the hook's OnDefineDomain return " +
					"different domains")
			}
		})
	}

	t.Run("unbound", func(t *testing.T) { checkUnbound(t, results) })
}

// results is the directory that the node has written to, and the program that ran
// on it.
type results struct{ dir, program string }

func (r results) path(name string) string { return filepath.Join(r.dir, name) }

func (r results) file(t *testing.T, name string) []byte {
	t.Helper()
	return expect.File(t, r.path(name))
}

func (r results) read(t *testing.T, name string, value any) {
	t.Helper()
	if err := json.Unmarshal(r.file(t, name), value); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// checkOutcomes: every device has the outcome and a cell, except the one without a
// PCI parent, which has no node.
func checkOutcomes(t *testing.T, i inner, plan *boot.Explained, outcome, reason string) {
	t.Helper()
	var ids []string
	for _, d := range plan.Devices {
		ids = append(ids, d.ID)
		got := fmt.Sprintf("%s, %s, with a cell: %t", d.Outcome, d.Reason, d.GuestCell != nil)
		want := fmt.Sprintf("%s, %s, with a cell: true", outcome, reason)
		if d.ID == loose {
			want = "unplaced, no-host-node, with a cell: false"
		}

		if got != want {
			t.Errorf("%s is %s, want %s", d.ID, got, want)
		}
	}

	var want []string
	for _, d := range i.devices {
		want = append(want, d.ID)
	}

	expect.Same(t, want, ids, "devices of the plan (-domain +plan)")
}

// run runs the node with guests to its end and returns what it wrote.
func run(t *testing.T, guests []inner) results {
	t.Helper()
	image, kernelDir := os.Getenv(imageVariable), os.Getenv(boot.KernelVariable)
	if image == "" || kernelDir == "" {
		t.Skipf("%s and %s are not both set; `make e2e` sets them", imageVariable,
			boot.KernelVariable)
	}

	dir := t.TempDir()
	binary := filepath.Join(dir, "hook-sidecar")
	expect.NoError(t, program.Build(binary, filepath.Join("..", "..")))
	initramfs := filepath.Join(dir, "initramfs")
	expect.NoError(t, Initramfs(image).Write(initramfs))
	share := t.TempDir()
	expect.NoError(t, fill(share, binary, kernelDir, guests))
	out := filepath.Join(share, "out")
	for attempt, done := 1, 0; ; attempt++ {
		began := time.Now()
		console, err := Machine{Image: image, Initramfs: initramfs, Share: share}.Boot(t.Context())
		t.Logf("attempt %d of %d: %v, %d inner guests started again, %v", attempt, attempts,
			time.Since(began).Round(time.Second), bytes.Count(console, []byte("INNER-LOST")), err)

		switch {
		case err == nil:
			return results{out, binary}
		case errors.Is(err, boot.ErrLost) && attempt < attempts:
			t.Logf("the end of its console:\n%s", console[max(0, len(console)-2000):])
		default:
			t.Fatalf("the node failed: %v\n%s", err, console[max(0, len(console)-8000):])
		}

		finished, err := filepath.Glob(filepath.Join(out, "*.compared.json"))
		expect.NoError(t, err)
		if len(finished) > done {
			attempt, done = 0, len(finished)
		}
	}
}
