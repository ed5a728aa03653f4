package verdict_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
)

// TestThreads: what people pasted into public threads, as it was found, gives the verdict that a
// person reads from it: the outcome, and of how many GPUs how many have a NIC that is PIX or PXB.
// What does not say enough is refused with the reason. Expectations were written before the reader
// saw the text.
func TestThreads(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "threads", "*.txt"))
	expect.NoError(t, err)
	if len(files) < 30 {
		t.Errorf("%d threads", len(files))
	}

	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			head, text, _ := strings.Cut(string(expect.File(t, file)), "\n--\n")
			fields := map[string]string{}
			for line := range strings.Lines(head) {
				key, value, _ := strings.Cut(line, ": ")
				fields[key] = strings.TrimSpace(value)
			}

			m, _, err := paste.Read([]byte(text))
			if refused := fields["refused"]; refused != "" {
				if err == nil || !strings.HasPrefix(err.Error(), refused) {
					t.Errorf("error %v, want %s", err, refused)
				}
				return
			}

			expect.NoError(t, err)
			v := verdict.New(m, nil)
			expect.Same(t, fields["want"], said(v), "verdict (-want +got)")

			if note := fields["note"]; !slices.ContainsFunc(v.Notes, func(n string) bool {
				return strings.HasPrefix(n, note)
			}) && note != "" {
				t.Errorf("notes %q, want %s", v.Notes, note)
			}
		})
	}
}

// said returns the outcome of a verdict, and for how many of the GPUs whose path is known GPUDirect
// RDMA is used; "-" for none known.
func said(v verdict.Verdict) string {
	direct, known := 0, 0
	for _, gpu := range v.GPUs {
		if gpu.Direct == nil {
			continue
		}
		if known++; *gpu.Direct {
			direct++
		}
	}

	if known == 0 {
		return string(v.Outcome) + " -"
	}

	return fmt.Sprintf("%s %d/%d", v.Outcome, direct, known)
}
