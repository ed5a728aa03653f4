// Package provider tells the pods that make or offer passthrough devices: device plugins, DRA
// drivers, drivers of nodes, and their operators. It stands apart from package archive, which the hook's
// program has, too: the API types of pods would be a third of that program.
package provider

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names are parts of the names of providers, or of their namespaces.
var names = []string{
	"device-plugin", "deviceplugin", "device-manager", "gpu", "nvidia", "amd-", "vfio", "vgpu", "mdev",
	"sriov", "sr-iov", "rdma", "kubelet-plugin", "dra-driver", "pcidevices", "network-operator", "i915",
}

// IsNamed reports whether a name, with or without a namespace, is of a provider.
func IsNamed(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(names, func(part string) bool {
		return strings.Contains(name, part)
	})
}

// bystanders are parts of the names of pods that only watch devices.
var bystanders = []string{"exporter", "dcgm", "dashboard", "metrics", "monitor"}

// Is reports whether a pod is a provider: its name says so, or its namespace's and that it is of a
// DaemonSet; it is no VM's, and it requests no device itself.
func Is(pod *corev1.Pod) bool {
	// Exporters and the like only watch devices. A VM's pod may be named after a GPU, as
	// virt-launcher-gpu-vm is.
	isBystander := slices.ContainsFunc(bystanders, func(part string) bool {
		return strings.Contains(pod.Name, part)
	})
	if strings.HasPrefix(pod.Name, "virt-") || isBystander {
		return false
	}

	// Workloads are named so, too. These are made by Jobs and the like, and what offers devices
	// by a DaemonSet, an operator or nobody.
	isOfSet := slices.ContainsFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "DaemonSet"
	})
	isOwned := isOfSet || len(pod.OwnerReferences) == 0 || strings.Contains(pod.Name, "operator") ||
		strings.Contains(pod.Name, "controller")
	isNamed := IsNamed(pod.Name) && isOwned || IsNamed(pod.Namespace) && isOfSet

	return isNamed && !slices.ContainsFunc(pod.Spec.Containers, requestsDevice)
}

// requestsDevice reports whether a container requests a device, but for those of KubeVirt's own.
func requestsDevice(c corev1.Container) bool {
	for name := range c.Resources.Requests {
		vendor, _, isExtended := strings.Cut(string(name), "/")
		if isExtended && vendor != "devices.kubevirt.io" {
			return true
		}
	}
	return len(c.Resources.Claims) > 0
}

// IsAboutOffers reports whether a message of virt-handler is about the devices that it offers on its node
// (KubeVirt pkg/virt-handler/device-manager).
func IsAboutOffers(message string) bool {
	parts := []string{"device plugin", "device-plugin", "mdev", "mediated", "host device"}
	return slices.ContainsFunc(parts, func(part string) bool {
		return strings.Contains(message, part)
	})
}
