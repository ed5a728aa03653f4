package doctor

import (
	"cmp"
	"fmt"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// Lost is what the hook writes for a running VM and its domain lacks, though the tree is there. If
// the cluster has a Plugin object, of whatever plugin, KubeVirt makes the domain of its own types
// after the sidecars, and drops what these lack (KubeVirt 1.9.0
// pkg/virt-launcher/virtwrap/util/libvirt_helper.go).
type Lost struct {
	Keys    []policy.Key // that write it; none if nothing is lost
	Plugins []string     // the cluster's Plugin objects; none if those cannot be the cause
	Unread  bool         // the Plugin objects cannot be read
}

// Remedy returns what to do against the Plugin objects; "" if they are not the cause.
func (l Lost) Remedy() string {
	cause := "Plugin " + words.FirstOf(l.Plugins, 4, ", ") + " is"
	switch {
	case len(l.Keys) == 0 || len(l.Plugins) == 0 && !l.Unread:
		return ""
	case l.Unread:
		cause = "a Plugin (kubectl get plugins.plugin.kubevirt.io) is"
	case len(l.Plugins) > 1:
		cause = "Plugins " + words.FirstOf(l.Plugins, 4, ", ") + " are"
	}

	writes := "the key writes"
	if len(l.Keys) > 1 {
		writes = "the keys write"
	}

	return fmt.Sprintf("run the hook as the plugin (%s), or leave %s out: while %s in the cluster, "+
		"KubeVirt drops from a sidecar's answer what %s", pluginPage(), l.keys(), cause, writes)
}

func (l Lost) keys() string {
	return words.And(topology.Map(l.Keys, func(k policy.Key) string { return string(k) }))
}

// answerKept checks whether the running domain has what the hook writes.
func answerKept(in Inputs) []Result {
	if len(in.Lost.Keys) == 0 {
		return pass("the running domain has all that the hook writes for its keys")
	}

	hint := cmp.Or(in.Lost.Remedy(),
		"restart the VM; if it stays so, see which other hook changes the domain after this one")
	return warn(hint, "the running domain lacks what the hook writes for %s", in.Lost.keys())
}
