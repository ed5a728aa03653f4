//go:build lane

package nccl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/tools/paste"
	"hook-sidecar/pkg/tools/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/pastes"
	"hook-sidecar/test/sys"
)

// TestVerdict: the verdict about the topology file of each published machine, and that about the /sys of the host
// made of it, say for how many GPUs NCCL's own code uses GPUDirect RDMA there. The GPUs are
// NVIDIA's in each, since it is NCCL that judges.
func TestVerdict(t *testing.T) {
	l := newLab(t)
	for _, c := range nccl.RecordedCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			host, err := sys.Recorded(c.Sysfs)
			expect.NoError(t, err)
			want := trues(direct(choices(l.decide(t, c, host, "", true))))

			fromFile, _, err := paste.Read([]byte(pastes.NCCLFile(c.Described)))
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

// TestDump: the file that NCCL's own code writes of a machine (NCCL_TOPO_DUMP_FILE) is read as what
// package pastes prints.
func TestDump(t *testing.T) {
	library := nccl.Libraries(t)[0]
	for _, c := range nccl.RecordedCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			machine, err := sys.Recorded(c.Sysfs)
			expect.NoError(t, err)
			dump := filepath.Join(t.TempDir(), "dump.xml")
			library.Decide(t, nccl.Job{Machine: machine, Hardware: c.Hardware, Nodes: 1, P2P: true,
				GPUs: machine.GPUs(c.Devices), NICs: machine.NICs(c.Devices),
				Env: []string{"NCCL_TOPO_DUMP_FILE=" + dump}})
			expect.Same(t, readFile(t, string(expect.File(t, dump))),
				readFile(t, pastes.NCCLFile(c.Described)), "what is read (-NCCL +printer)")
		})
	}
}

// readFile returns what is read of a topology file: a line per GPU and NIC with its path types.
func readFile(t *testing.T, text string) (lines []string) {
	t.Helper()
	m, _, err := paste.Read([]byte(text))
	expect.NoError(t, err)
	all := append(m.GPUs(), m.NICs()...)
	for i, d := range all {
		line := fmt.Sprintf("%s %06x %s node %s link %v:", d.Address, d.Class, d.IDs(), d.Node, d.MaxLink)
		for _, other := range all[:i] {
			between, _ := m.PathType(d.Address, other.Address)
			line += " " + between.String()
		}
		lines = append(lines, line)
	}

	return lines
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
