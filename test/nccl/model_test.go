package nccl_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"hook-sidecar/pkg/consumers/ncclgraph"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
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

		recorded, err := nccl.Recorded(c.Sysfs)
		expect.NoError(t, err)
		machines := map[string]nccl.Machine{
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
func modelled(t *testing.T, c nccl.Case, machine nccl.Machine) map[string]choice {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, machine.Write(dir))
	shown, _ := host.Read(os.DirFS(dir), nil, host.All)
	gpus, nics := inOrder(machine, machine.GPUs(c.Devices)), inOrder(machine,
		machine.NICs(c.Devices))
	ids := topology.Map(append(slices.Clone(gpus), nics...), func(name string) topology.DeviceID {
		return deviceAt(t, machine.Devices[name])
	})

	nodes := shown.Tree(ids).Devices(ids)
	link := func(n *topology.Node) topology.Link { return linkOf(shown, n) }
	m := ncclgraph.Machine{NICs: nodes[len(gpus):], Link: link}
	for _, n := range nodes[:len(gpus)] {
		m.GPUs = append(m.GPUs, ncclgraph.GPU{Node: n, NVLink: c.Hardware.NVLinks > 0})
	}

	all := map[string]choice{}
	for i, chosen := range m.Choices() {
		if chosen.NIC >= 0 {
			all[gpus[i]] = choice{nics[chosen.NIC], chosen.IsDirect()}
		}
	}

	return all
}

// inOrder sorts devices as CUDA and the kernel number them: by address.
func inOrder(machine nccl.Machine, names []string) []string {
	return slices.SortedFunc(slices.Values(names), func(x, y string) int {
		return strings.Compare(machine.Devices[x], machine.Devices[y])
	})
}

func deviceAt(t *testing.T, address string) topology.DeviceID {
	t.Helper()
	a, err := topology.ParseAddress(address)
	expect.NoError(t, err)
	return topology.PCIDevice(a)
}

// linkOf returns what sysfs shows of a function or port.
func linkOf(shown *topology.Host, n *topology.Node) topology.Link {
	var address topology.Address
	switch id := n.ID.(type) {
	case topology.Address:
		address = id
	case topology.DeviceID:
		address, _ = id.PCI()
	}

	if link := shown.MaxLink(shown.FunctionAt(address)); link != nil {
		return *link
	}

	return topology.Link{}
}
