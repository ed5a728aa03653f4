package verdict_test

import (
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
)

// TestCut: of a text that is cut anywhere nothing is said about GPUDirect RDMA of a GPU that the
// whole text does not say.
func TestCut(t *testing.T) {
	for _, directory := range []string{"threads", "corpus/topo"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "testdata", directory, "*.txt"))
		expect.NoError(t, err)
		for _, file := range files {
			data := expect.File(t, file)
			whole, _, err := paste.Read(data)
			if err != nil || len(data) > 20_000 {
				continue
			}

			says := verdict.New(whole, nil)
			for at := len(data) - 1; at > 0; at -= max(1, len(data)/97) {
				part, _, err := paste.Read(data[:at])
				if err != nil {
					continue
				}

				compareCut(t, filepath.Base(file), at, says, verdict.New(part, nil))
			}
		}
	}
}

// compareCut compares what is said of each GPU of a cut text with what the whole text says.
func compareCut(t *testing.T, file string, at int, whole, part verdict.Verdict) {
	t.Helper()
	if len(part.GPUs) != len(whole.GPUs) {
		return // which is which is not known
	}

	for i, gpu := range part.GPUs {
		if want := whole.GPUs[i].Direct; gpu.Direct != nil && want != nil && *gpu.Direct != *want {
			t.Errorf("%s cut at %d: GPUDirect RDMA of %s is %v, of the whole text %v", file, at,
				gpu.Name, *gpu.Direct, *want)
		}
	}
}
