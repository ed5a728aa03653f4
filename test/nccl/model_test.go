//go:build lane

package nccl_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// otherNICs are machines for which the model takes another NIC than NCCL for some GPUs.
var otherNICs = map[string]string{
	"rccl-8p-rome-n2-1": "a NIC of 5 GT/s x4 beside one of 16 GT/s x16, on other nodes than the GPUs",
}

// TestModel: of each host, of its domain as it came and of its guests the program's own model
// knows for which GPUs GPUDirect RDMA is used, and takes the NIC that NCCL takes. The NICs of
// random hosts, with devices beside the ports of a switch and several functions, are only
// reported.
func TestModel(t *testing.T) {
	everyVM(t, func(t *testing.T, l lab, c nccl.Case) {
		if !l.hasJob(t, c) {
			t.Skip("no job")
		}

		recorded, err := sys.Recorded(c.Sysfs)
		expect.NoError(t, err)
		machines := map[string]sys.Machine{
			"host": recorded, "as it came": l.machine(t, c, c.Domain),
		}

		for _, layout := range []policy.Layout{policy.LayoutRoot, policy.LayoutMirror} {
			f := form{flags: nccl.Flags{policy.KeyLayout: string(layout)}}
			machines[string(layout)] = l.machine(t, c, l.plan(t, c, f).Domain)
		}

		for name, machine := range machines {
			model, theirs := modelled(t, c,
				machine), choices(l.decide(t, c, machine, "", name == "host"))
			expect.Same(t, direct(theirs), direct(model),
				"%s: GPUs with GPUDirect RDMA (-NCCL +model)", name)
			if isRandom := strings.HasPrefix(c.Name, "seed-"); !isRandom &&
				otherNICs[c.Name] == "" {
				expect.Same(t, theirs, model, "%s: NICs of GPUs (-NCCL +model)", name)
			} else if !maps.Equal(theirs, model) {
				t.Logf("%s: NCCL takes %v, the model %v", name, theirs, model)
			}
		}
	})
}

// choice is the NIC of a GPU.
type choice struct {
	NIC   string
	IsGDR bool
}

// choices returns the NIC that NCCL takes for each GPU.
func choices(decisions nccl.Decisions) map[string]choice {
	all := map[string]choice{}
	for _, gpu := range decisions.GPUs {
		if len(gpu.Net) > 0 {
			all[gpu.GPU] = choice{gpu.Net[0], gpu.Nets[gpu.Net[0]].IsGDR()}
		}
	}

	return all
}

// direct returns which GPUs use GPUDirect RDMA.
func direct(choices map[string]choice) map[string]bool {
	all := map[string]bool{}
	for gpu, c := range choices {
		all[gpu] = c.IsGDR
	}
	return all
}

// modelled returns what the model decides for a machine, by its /sys.
func modelled(t *testing.T, c nccl.Case, machine sys.Machine) map[string]choice {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, machine.Write(dir))
	seen, err := machine.Seen(os.DirFS(dir), c.Devices)
	expect.NoError(t, err)
	for i := range seen.GPUs {
		seen.GPUs[i].NVLink = c.Hardware.NVLinks > 0
	}

	all := map[string]choice{}
	for i, chosen := range seen.Choices() {
		if chosen.NIC >= 0 {
			gpu, nic := seen.GPUs[i].Node.ID.String(), seen.NICs[chosen.NIC].ID.String()
			all[gpu] = choice{nic, chosen.IsDirect()}
		}
	}

	return all
}
