// Package manifests tests the directory manifests: the files decode strictly,
// kube-apiserver's own code shows what the admission policy does to a pod of
// virt-launcher, and KubeVirt's own policies accept the result. It is a module of
// its own, so that kube-apiserver does not reach the product's go.mod.
//
// A cluster is not tested: no scheduler, kubelet or virt-handler runs.
package manifests
