package verdict_test

import (
	"fmt"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/corpus"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/pastes"
)

// TestCut: of a text that is cut anywhere nothing is said about GPUDirect RDMA of a GPU that the
// whole text does not say. Lists and trees do not show that devices are missing at their end.
func TestCut(t *testing.T) {
	for i, th := range threads {
		testCuts(t, fmt.Sprintf("%d %s", i, th.source), []byte(th.text(t)))
	}

	for i, name := range []string{"sglang-h100", "dlperf-v100", "gdr-114", "ml-engineering-8g"} {
		m := pastes.Load(t, name)
		for j, f := range pastes.Formats {
			if f.Suits(m) && f.Farthest == topology.SYS && expect.IsSampled(i+j, 7) {
				testCuts(t, name+", "+f.Name, []byte(f.Print(m)))
			}
		}
	}
}

// TestNarrow: so it is of a table whose columns are cut at the right, as a narrow page does.
func TestNarrow(t *testing.T) {
	for _, name := range []string{"gdr-114", "rccl-8p-pcie-2nic", "sglang-h100"} {
		text := pastes.TopoMP.Print(pastes.Load(t, name))
		whole, _, err := paste.Read([]byte(text))
		expect.NoError(t, err)
		says := verdict.New(whole, nil)
		for columns := 16; columns < 200; columns += 3 {
			part, _, err := paste.Read([]byte(pastes.Columns(columns)(text)))
			if err == nil {
				compareCut(t, name, columns, says, verdict.New(part, nil))
			}
		}
	}
}

// TestCutCorpus: so it is with the tables that others pasted.
func TestCutCorpus(t *testing.T) {
	for name, file := range corpus.Files(t, "topo") {
		testCuts(t, name, expect.File(t, file))
	}
}

// testCuts compares what is said of a text that is cut with what the whole text says.
func testCuts(t *testing.T, name string, data []byte) {
	t.Helper()
	whole, _, err := paste.Read(data)
	if err != nil || len(data) > 20_000 {
		return
	}

	says := verdict.New(whole, nil)
	for at := len(data) - 1; at > 0; at -= max(1, len(data)/97) {
		if part, _, err := paste.Read(data[:at]); err == nil {
			compareCut(t, name, at, says, verdict.New(part, nil))
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
