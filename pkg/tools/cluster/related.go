package cluster

import (
	resourceapi "k8s.io/api/resource/v1"
	"kubevirt.io/api/core"
)

// Related returns what to read of a VM's namespace where the VM does not run, or has to leave its
// node: its volumes and what fills them, its migrations and restores, and what limits or keeps its
// pods. Why and collect read the same.
func Related(namespace string) []Query {
	all := []Query{
		{Resource: "persistentvolumeclaims"},
		// containerized-data-importer pkg/apis/core/v1beta1/register.go
		{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "datavolumes"},
		{Group: core.GroupName, Resource: "virtualmachineinstancemigrations"},
		// KubeVirt staging/src/kubevirt.io/api/snapshot/v1beta1/register.go
		{Group: "snapshot.kubevirt.io", Version: "v1beta1", Resource: "virtualmachinerestores"},
		{Resource: "resourcequotas"},
		{Group: "policy", Resource: "poddisruptionbudgets"},
	}

	for i := range all {
		all[i].Namespace = namespace
	}

	return all
}

// Providers returns what to read of the cluster where a VM finds no node: what should offer devices,
// who has those of claims, and where volumes can be reached from.
func Providers() []Query {
	return []Query{
		{Group: "apps", Resource: "daemonsets"},
		{Resource: "persistentvolumes"},
		{Group: resourceapi.GroupName, Resource: "resourceclaims"},
		{Group: resourceapi.GroupName, Resource: "resourceslices"},
	}
}
