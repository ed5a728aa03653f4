// Package manifests tests what stands in the folder manifests: that it decodes
// strictly, that the admission policy does to a pod of virt-launcher what it
// should, in the code of kube-apiserver, and that KubeVirt's own policies let
// the result pass. The module is one of its own, so that kube-apiserver does
// not reach the product's go.mod.
//
// What is not tested: a cluster. No scheduler, kubelet or virt-handler runs.
package manifests
