//go:build linux && lane

package cluster

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/judges"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// judge: the code of NCCL, UCX and Kubernetes' DRA decides by the guest's own /sys as by the node's,
// with NVMe devices in place of GPUs. Without the variables of these programs it is skipped.
func (v vm) judge(t *testing.T, c *cluster, seen map[string]boot.Expected) {
	t.Helper()
	node, err := host.ParseSnapshot([]byte(c.kubectl(t, "hostdev", "snapshot", v.name) + "\n"))
	expect.NoError(t, err)
	guest, err := host.ParseSnapshot(v.boots(t, c).Snapshot)
	expect.NoError(t, err)
	at := map[string]string{}
	for id, place := range seen {
		at[id] = place.Address
	}

	onNode, err := sys.Recorded(node)
	expect.NoError(t, err)
	inGuest, err := sys.Recorded(guest)
	expect.NoError(t, err)
	inGuest.Devices = at
	ids := slices.Sorted(maps.Keys(at))
	nics := onNode.NICs(ids)
	gpus := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(nics, id) })

	t.Run("NCCL", func(t *testing.T) {
		hardware := nccl.Hardware{CPU: "GenuineIntel 6 143", SM: 90, NVLinks: 18, Mbps: 100_000}
		on, in := nccl.Libraries(t)[0].Judge(t, hardware, gpus, nics, node, guest, at)
		t.Logf("NCCL decides on the node %+v, in the guest %+v", on, in)
		expect.Same(t, on, in, "what NCCL decides (-on the node +in the guest)")
	})

	t.Run("UCX and DRA", func(t *testing.T) {
		programs := judges.New(t)
		on, in := written(t, onNode, gpus, nics), written(t, inGuest, gpus, nics)
		const byDefault = "auto" // of UCX_DISTANCE_BW
		mbps := programs.UCX(t, []string{byDefault}, []judges.Asked{on, in})
		t.Logf("UCX assumes on the node %v, in the guest %v", mbps[0], mbps[1])
		expect.Same(t, taken(mbps[0][byDefault], gpus), taken(mbps[1][byDefault], gpus),
			"NICs that UCX takes per GPU (-on the node +in the guest)")
		expect.Same(t, aligned(t, on), aligned(t, in),
			"pairs that a claim may take by pcieRoot and numaNode (-on the node +in the guest)")
	})
}

// written writes a machine's /sys, to be asked about.
func written(t *testing.T, m sys.Machine, gpus, nics []string) judges.Asked {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sys")
	expect.NoError(t, m.Write(dir))
	return judges.Asked{Dir: dir, GPUs: gpus, NICs: nics, At: m.Devices}
}

// taken returns the NICs of each GPU to which UCX assumes the most MB/s. A switch under which the VM
// has one device alone is not mirrored, so that the MB/s of a pair may differ.
func taken(mbps map[judges.Pair]float64, gpus []string) map[string][]string {
	all := map[string][]string{}
	for _, gpu := range gpus {
		most := 0.0
		for p, n := range mbps {
			switch {
			case p.GPU != gpu || n < most:
			case n > most:
				most, all[gpu] = n, []string{p.NIC}
			default:
				all[gpu] = append(all[gpu], p.NIC)
			}
		}

		slices.Sort(all[gpu])
	}

	return all
}

// alignment is which attributes of DRA two devices have in common.
type alignment struct{ Root, Node bool }

// aligned returns the attributes that DRA publishes alike of each GPU and NIC.
func aligned(t *testing.T, m judges.Asked) map[judges.Pair]alignment {
	t.Helper()
	all, published := map[judges.Pair]alignment{}, judges.AskDRA(t, m)
	for _, gpu := range m.GPUs {
		for _, nic := range m.NICs {
			x, y := published[gpu], published[nic]
			all[judges.Pair{GPU: gpu, NIC: nic}] = alignment{
				Root: x.Root == y.Root, Node: x.Node != "" && x.Node == y.Node,
			}
		}
	}

	return all
}
