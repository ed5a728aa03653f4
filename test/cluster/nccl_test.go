//go:build linux

package cluster

import (
	"maps"
	"os"
	"slices"
	"testing"

	"hook-sidecar/pkg/host"
	"hook-sidecar/test/boot"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// judge: NCCL's own code decides by the guest's /sys as by the node's, with NVMe devices in place
// of GPUs. It is skipped where NCCL was not built.
func (v vm) judge(t *testing.T, c *cluster, seen map[string]boot.Expected) {
	t.Helper()
	if os.Getenv(nccl.Variable) == "" {
		t.Logf("NCCL was not built: make nccl")
		return
	}

	node, err := host.ParseSnapshot([]byte(c.kubectl(t, "hostdev", "snapshot", v.name) + "\n"))
	expect.NoError(t, err)
	guest, err := host.ParseSnapshot(v.boots(t, c).Snapshot)
	expect.NoError(t, err)
	at := map[string]string{}
	for id, place := range seen {
		at[id] = place.Address
	}

	machine, err := sys.Recorded(node)
	expect.NoError(t, err)
	ids := slices.Collect(maps.Keys(at))
	nics := machine.NICs(ids)
	gpus := slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(nics, id) })
	hardware := nccl.Hardware{CPU: "GenuineIntel 6 143", SM: 90, NVLinks: 18, Mbps: 100_000}
	onNode, inGuest := nccl.Libraries(t)[0].Judge(t, hardware, gpus, nics, node, guest, at)
	t.Logf("NCCL decides on the node %+v, in the guest %+v", onNode, inGuest)
	expect.Same(t, onNode, inGuest, "what NCCL decides (-on the node +in the guest)")
}
