package nccl_test

import (
	"os"
	"path/filepath"
	"testing"

	"hook-sidecar/pkg/paste"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/verdict"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
)

// TestVerdict: the verdict about the /sys of each host, of its domain as it came and of its guest says
// for which GPUs NCCL's own code uses GPUDirect RDMA, and about a published topology file for how
// many.
func TestVerdict(t *testing.T) {
	everyVM(t, func(t *testing.T, l lab, c nccl.Case) {
		if !l.hasJob(t, c) {
			t.Skip("no job")
		}

		host, err := nccl.Recorded(c.Sysfs)
		expect.NoError(t, err)
		onHost := direct(choices(l.decide(t, c, host, "", true)))
		file := filepath.Join("testdata", "recorded", c.Name+".xml")
		if _, err := os.Stat(file); err == nil {
			m, _, err := paste.Read(expect.File(t, file))
			expect.NoError(t, err)
			expect.Same(t, count(onHost), count(saidOf(verdict.New(m, nil), nil)),
				"%s: GPUs with GPUDirect RDMA (-NCCL +verdict)", file)
		}

		mirror := form{flags: nccl.Flags{policy.KeyLayout: string(policy.LayoutMirror)}}
		for name, machine := range map[string]nccl.Machine{
			"host": host, "as it came": l.machine(t, c, c.Domain),
			"mirror": l.machine(t, c, l.plan(t, c, mirror).Domain),
		} {
			dir := t.TempDir()
			expect.NoError(t, machine.Write(dir))
			m, _ := paste.ReadSysfs(os.DirFS(dir))
			theirs := direct(choices(l.decide(t, c, machine, "", name == "host")))
			expect.Same(t, theirs, saidOf(verdict.New(m, nil), machine.Devices),
				"%s: GPUs with GPUDirect RDMA (-NCCL +verdict)", name)
		}
	})
}

// saidOf returns for which GPUs a verdict says that GPUDirect RDMA is used, by their names on the
// host, else by those of the verdict.
func saidOf(v verdict.Verdict, devices map[string]string) map[string]bool {
	names := map[string]string{}
	for name, address := range devices {
		names[address] = name
	}

	said := map[string]bool{}
	for _, gpu := range v.GPUs {
		name := gpu.Name
		if devices != nil {
			name = names[gpu.Address.String()]
		}

		if gpu.Direct != nil {
			said[name] = *gpu.Direct
		}
	}

	return said
}

// count counts what is true.
func count(all map[string]bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}

	return n
}
