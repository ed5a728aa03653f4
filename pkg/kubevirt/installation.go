package kubevirt

import "k8s.io/apimachinery/pkg/util/version"

// Installation describes KubeVirt and this hook's manifests/plugin in a cluster.
type Installation struct {
	Version string   // of KubeVirt, such as v1.9.0; "" if unknown
	Gates   []string // KubeVirt's feature gates

	Plugins []Plugin
	// objects of manifests/plugin that do not exist, as kubectl names them
	Missing  []string
	Settings map[string]string // of the ConfigMap
	Unread   []error           // why a part could not be read
}

// Plugin is a Plugin object of KubeVirt. Versions differ in the name of its hooks.
type Plugin struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		DomainHooks   []PluginHook `json:"domainHooks"`   // KubeVirt 1.9
		LauncherHooks []PluginHook `json:"launcherHooks"` // from 1.10 on
	} `json:"spec"`
}

// PluginHook is a hook of a Plugin, so far as it concerns this one.
type PluginHook struct {
	Sidecar *struct {
		PermittedHooks []string `json:"permittedHooks"`
	} `json:"sidecar"`
}

// Minor returns the second number of KubeVirt's version 1.x, or 0 if the version is unknown.
func (i Installation) Minor() int {
	found, err := version.ParseGeneric(i.Version)
	if err != nil || found.Major() != 1 {
		return 0
	}
	return int(found.Minor())
}

// RequestsHook reports whether a VM with these labels and annotations requests a hook: with the
// label of manifests/plugin, or with KubeVirt's annotation, which may request another's.
func RequestsHook(labels, annotations map[string]string) bool {
	return labels["hostdev.vm.kubevirt.io/placement"] == "enabled" ||
		annotations["hooks.kubevirt.io/hookSidecars"] != ""
}
