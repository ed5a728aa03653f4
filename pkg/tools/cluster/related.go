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

// Resource is a resource of the cluster, in all namespaces.
type Resource struct {
	Query
	Versions []string // the first that is served; nil for v1

	// IsProvider: it says what should offer devices, who has those of claims, or where volumes can be
	// reached from. Why reads it where a VM finds no node.
	IsProvider bool
}

// Resources say what a VM can have. Collect reads all of them, why those with IsProvider.
var Resources = []Resource{
	{Query: Query{Resource: "nodes"}},
	{Query: Query{Group: resourceapi.GroupName, Resource: "deviceclasses"}},
	{Query: Query{Group: resourceapi.GroupName, Resource: "resourceslices"}, IsProvider: true},
	{Query: Query{Group: resourceapi.GroupName, Resource: "resourceclaims"}, IsProvider: true},
	{Query: Query{Group: resourceapi.GroupName, Resource: "resourceclaimtemplates"}},
	TaintRules,
	{Query: Query{Resource: "persistentvolumes"}, IsProvider: true},
	{Query: Query{Group: "apps", Resource: "daemonsets"}, IsProvider: true},
	{Query: NodeNetworks},
}

// TaintRules are the rules that taint devices. The API servers of Kubernetes 1.37, 1.36 and 1.33 began
// to serve the versions, where the rules are enabled.
var TaintRules = Resource{
	Query:    Query{Group: resourceapi.GroupName, Resource: "devicetaintrules"},
	Versions: []string{"v1", "v1beta2", "v1alpha3"},
}

// NodeNetworks are the NICs with virtual functions per node, where the SR-IOV operator runs
// (sriov-network-operator api/v1/groupversion_info.go).
var NodeNetworks = Query{Group: "sriovnetwork.openshift.io", Resource: "sriovnetworknodestates"}
