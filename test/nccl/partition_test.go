//go:build lane

package nccl_test

import (
	"slices"
	"testing"

	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/test/expect"
	"hook-sidecar/test/nccl"
	"hook-sidecar/test/sys"
)

// TestPartitions: of a VM with some GPUs of an HGX H100 NCCL finds those on NVLink that a partition
// joins, as the model does. GPUs outside one have their links disabled.
func TestPartitions(t *testing.T) {
	list, err := nvlink.Parse(expect.File(t, "../../testdata/partitions/hgx-h100.json"))
	expect.NoError(t, err)
	l := newLab(t)
	all := nccl.Cases(t)
	c := all[slices.IndexFunc(all, func(c nccl.Case) bool { return c.Name == "hgx-h100" })]
	machine, err := sys.Recorded(c.Sysfs)
	expect.NoError(t, err)
	names := machine.GPUs(c.Devices)
	for i, name := range names { // any order will do
		list.Addresses[nvlink.Module(i+1)], err = topology.ParseAddress(name)
		expect.NoError(t, err)
	}

	for name, test := range map[string]struct {
		modules []int
		joined  []int
	}{
		"a partition of two":        {[]int{1, 3}, []int{1, 3}},
		"a partition of four":       {[]int{5, 6, 7, 8}, []int{5, 6, 7, 8}},
		"a partition and one more":  {[]int{1, 2, 3}, []int{1, 3}},
		"two that are no partition": {[]int{1, 2}, nil},
		"of both halves":            {[]int{2, 4, 5}, []int{2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			var gpus, unlinked []string
			var addresses []topology.Address
			for _, m := range test.modules {
				gpus = append(gpus, names[m-1])
				addresses = append(addresses, list.Addresses[nvlink.Module(m)])
			}

			for i, name := range gpus {
				if isJoined := list.IsJoined(addresses[i], addresses); !isJoined {
					unlinked = append(unlinked, name)
				}
			}

			job := nccl.Job{Machine: machine, Hardware: c.Hardware, Nodes: 1, P2P: false,
				GPUs: gpus, Unlinked: unlinked}
			for _, gpu := range l.library.Decide(t, job).GPUs {
				for peer, path := range gpu.GPUs {
					isPair := slices.Contains(test.joined, slices.Index(names, gpu.GPU)+1) &&
						slices.Contains(test.joined, slices.Index(names, peer)+1)
					if gpu.GPU != peer && (path == "NVL") != isPair {
						t.Errorf("%s to %s: %s, want NVL: %v", gpu.GPU, peer, path, isPair)
					}
				}
			}
		})
	}
}
