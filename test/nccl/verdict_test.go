package nccl_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
)

// TestVerdict: the verdict about each published topology file, and that about the /sys of the host
// made of it, say for how many GPUs NCCL's own code uses GPUDirect RDMA there. The GPUs are
// NVIDIA's in each, since it is NCCL that judges.
func TestVerdict(t *testing.T) {
	labs := newLabs(t)
	for _, c := range nccl.AllRecordedCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			l := labs.forCase(t, c)
			host, err := nccl.Recorded(c.Sysfs)
			expect.NoError(t, err)
			want := trues(direct(choices(l.decide(t, c, host, "", true))))

			file := filepath.Join("..", "..", "testdata", "corpus", "nccl", c.Name+".xml")
			fromFile, _, err := paste.Read(withNVIDIA(expect.File(t, file)))
			expect.NoError(t, err)
			dir := t.TempDir()
			expect.NoError(t, host.Write(dir))
			fromSysfs, _ := paste.ReadSysfs(os.DirFS(dir))
			for name, m := range map[string]paste.Machine{"file": fromFile, "/sys": fromSysfs} {
				if got := saidDirect(verdict.New(m, nil)); got != want {
					t.Errorf("%s: %d GPUs with GPUDirect RDMA, NCCL has %d", name, got, want)
				}
			}
		})
	}
}

// withNVIDIA returns a topology file with NVIDIA's GPUs and links in the place of AMD's.
func withNVIDIA(file []byte) []byte {
	file = bytes.ReplaceAll(file, []byte(`vendor="0x1002"`), []byte(`vendor="0x10de"`))
	return bytes.ReplaceAll(file, []byte("xgmi"), []byte("nvlink"))
}

// saidDirect counts the GPUs for which a verdict says that GPUDirect RDMA is used.
func saidDirect(v verdict.Verdict) (n int) {
	for _, gpu := range v.GPUs {
		if gpu.Direct != nil && *gpu.Direct {
			n++
		}
	}

	return n
}

// trues counts what is true.
func trues(all map[string]bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}

	return n
}
