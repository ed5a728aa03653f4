// Package kubectl runs kubectl-hostdev as a user does, against the parts of a cluster that
// it meets: kube-apiserver (its own code, built here) over Debian's etcd, KubeVirt's
// definitions, the streaming server of kubelet and container runtimes for exec
// (k8s.io/cri-streaming), and as containers root file systems of their own, in which a
// libvirt runs QEMU. Only what virt-controller and the kubelet would write, VMIs and pods,
// is written by the test.
//
// It proves what only these parts can: that their answers are understood and that nothing
// is changed. Formats, arguments and errors are in the scripts of cmd/kubectl-hostdev,
// against the answers that test/apiserver has in files.
package kubectl
