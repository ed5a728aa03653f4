package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"hook-sidecar/pkg/domain"
	"hook-sidecar/pkg/host"
	"hook-sidecar/pkg/placement"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster"
	"hook-sidecar/pkg/tools/cluster/fit"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
)

// partitions returns the NVLink partitions of a VM's node, by the node's annotation or by what its
// driver publishes. It asks for the node only if the VM's GPUs may not be a partition.
func (a *app) partitions(
	ctx context.Context, client *cluster.Client, vm cluster.RunningVM,
) nvlink.List {
	need := partitionNeed(vm)
	if need == noPartitions {
		return nvlink.List{}
	}

	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	var files []fit.File
	for _, q := range []cluster.Query{
		{Resource: "nodes", Name: vm.Node},
		{
			Group: resourceapi.GroupName, Resource: "resourceslices",
			Parameters: map[string]string{"fieldSelector": "spec.nodeName=" + vm.Node},
		},
	} {
		data, err := client.Get(ctx, q)
		if apierrors.IsNotFound(err) {
			continue // without the node or the API of drivers, neither lists partitions
		}
		if need == switchesIdle && apierrors.IsForbidden(err) {
			continue // the finding about the NVSwitches says what is not known
		}
		if err != nil {
			a.Say("warning: NVLink partitions not read: %s", reasons.Text(err))
			continue
		}

		files = append(files, fit.File{Name: "the cluster's " + q.Resource, Data: data})
	}

	objects, err := fit.Parse(files...)
	var list nvlink.List
	if err == nil {
		list, err = fit.New(objects).PartitionsOf(vm.Node)
	}

	if err != nil {
		a.Say("warning: NVLink partitions not read: %s", reasons.Text(err))
	}

	return list
}

// need says why the partitions of a VM's node matter.
type need int

const (
	noPartitions need = iota
	switchesIdle      // the VM has all GPUs of a board, and nobody who is known to connect them
	someGPUs          // the VM has some of the GPUs of a board with NVSwitches
)

// partitionNeed returns why the partitions of a VM's node matter.
func partitionNeed(vm cluster.RunningVM) need {
	d, err := domain.Parse(vm.Domain)
	if err != nil {
		return noPartitions // who plans the VM says why
	}

	ids := placement.Candidates(d, nil)
	shown, _ := host.Read(vm.Host, ids, host.Warnings)
	functions := topology.Map(ids, shown.Function)
	count := topology.CountFunc(functions, nvlink.IsSwitched)
	switch {
	case count <= 1:
		return noPartitions
	case !nvlink.IsWhole(count, shown):
		return someGPUs
	case nvlink.List{}.SwitchFault(functions, shown) != "":
		return switchesIdle
	}

	return noPartitions
}
