package doctor

import (
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/kubevirt"
	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/words"
)

func clusterRead(in Inputs) (results []Result) {
	for _, err := range in.Unread {
		results = append(results, note(reasons.HintOf(err), "%s", words.OneLine(err.Error()))...)
	}
	return orPass(results, "all that the checks of a cluster look at")
}

func kubeVirtVersion(in Inputs) []Result {
	if in.Version == "" {
		return fail("kubectl get kubevirt -A shows what KubeVirt's operator waits for",
			"KubeVirt is not installed, or its version is not known yet")
	}
	return pass("KubeVirt %s", in.Version)
}

// The feature gates of the two ways to run the hook (docs/install.md), and the first minor version
// of KubeVirt in which a Plugin has other fields.
const (
	gateSidecar = "Sidecar"
	gatePlugins = "Plugins"

	firstWithLauncher = 10 // spec.launcherHooks in place of spec.domainHooks
)

func featureGates(in Inputs) []Result {
	sidecar, plugins := slices.Contains(in.Gates, gateSidecar), slices.Contains(in.Gates,
		gatePlugins)
	switch {
	case !sidecar && !plugins:
		return fail("add gate Sidecar or Plugins: "+reasons.Page("docs/install.md#image-and-gates"),
			"gates Sidecar and Plugins are off: no VM can have the hook")

	case len(in.Plugins) > 0 && !plugins:
		return fail("add the gate to spec.configuration.developerConfiguration.featureGates of "+
			"the KubeVirt object", "gate Plugins is off: Plugin objects have no effect")

	case !plugins && in.Minor() >= firstWithLauncher:
		return note("use the plugin: "+pluginPage(),
			"gate Plugins is off; hook sidecars are deprecated since KubeVirt 1.9")
	}

	return pass("gate Sidecar: %t, gate Plugins: %t", sidecar, plugins)
}

// pluginHooks fails if the Plugin has no hook of a kind that this KubeVirt reads: the API server drops the
// other version's field from an object that was stored before an upgrade, and KubeVirt starts VMs
// without the hook.
func pluginHooks(in Inputs) []Result {
	if !hasHookPlugin(in) {
		return pass("there is no Plugin %s", hookPlugin)
	}

	spec := in.Plugins[slices.IndexFunc(in.Plugins, isHookPlugin)].Spec
	hooks, field, remedy := spec.DomainHooks, "domainHooks", "apply the plugin's manifests for "+
		"KubeVirt 1.9: "+pluginPage()
	isNew := in.Minor() >= firstWithLauncher
	if isNew {
		hooks, field = spec.LauncherHooks, "launcherHooks"
		remedy = "apply the overlay kubevirt-1.10: " + reasons.Page("docs/install.md#kubevirt-110")
	}

	switch {
	case in.Minor() == 0:
		return note("", "which hooks of Plugin %s this KubeVirt reads is not known", hookPlugin)
	case len(hooks) == 0:
		return fail(remedy,
			"Plugin %s has no hook in KubeVirt %s, which reads %s: VMs start without it",
			hookPlugin, in.Version, field)

	case isNew && !slices.ContainsFunc(hooks, definesGuest):
		return fail(remedy,
			"Plugin %s has no hook with GuestDefinition in permittedHooks, so virt-launcher does "+
				"not call it", hookPlugin)
	}

	return pass("Plugin %s has a hook", hookPlugin)
}

// definesGuest reports whether virt-launcher calls the hook's sidecar to define a domain.
func definesGuest(h kubevirt.PluginHook) bool {
	return h.Sidecar != nil && slices.Contains(h.Sidecar.PermittedHooks, "GuestDefinition")
}

// lacksMode is the release that is known to leave the mode out.
const lacksMode = "v1.9.0"

// pluginPCI warns in every version: no release is known to have the fix of KubeVirt's issue 18861.
func pluginPCI(in Inputs) []Result {
	if len(in.Plugins) == 0 {
		return pass("no Plugin object")
	}

	const found = "a Plugin object is in the cluster: VMs with PCI host devices fail to start with " +
		"\"Missing 'mode' attribute\" (kubevirt/kubevirt issue 18861)"
	if in.Version == lacksMode && !slices.Contains(in.Gates, gateSidecar) {
		return fail("add gate Sidecar, and give each VM with a PCI device a hook sidecar: "+
			pluginPage(), found+", and gate Sidecar is off")
	}

	return warn("until this KubeVirt has the fix, each VM with a PCI device needs a hook sidecar, "+
		"too: "+pluginPage(), found)
}

// hookPlugin is the Plugin of manifests/plugin, which pluginPage says how to apply.
const hookPlugin = "hostdev"

func pluginPage() string { return reasons.Page("docs/install.md#as-a-structured-plugin") }

func isHookPlugin(p kubevirt.Plugin) bool { return p.Metadata.Name == hookPlugin }

func hasHookPlugin(in Inputs) bool { return slices.ContainsFunc(in.Plugins, isHookPlugin) }

func pluginObjects(in Inputs) []Result {
	const all = 5 // policies, bindings and ConfigMap
	switch missing := strings.Join(in.Missing, ", "); {
	case hasHookPlugin(in) && len(in.Missing) > 0:
		return fail("apply the plugin's manifests again: "+pluginPage(),
			"Plugin %s needs what does not exist: %s", hookPlugin, missing)

	case !hasHookPlugin(in) && len(in.Missing) < all && len(in.Unread) == 0:
		return warn("apply the plugin's manifests again, or delete the rest of them: "+pluginPage(),
			"there is no Plugin %s, but objects that belong to it: VMs with the label start "+
				"without the hook", hookPlugin)

	case !hasHookPlugin(in):
		return pass("the plugin is not installed")
	}

	return pass("policies, bindings and ConfigMap of Plugin %s exist", hookPlugin)
}

func pluginSettings(in Inputs) (results []Result) {
	if !hasHookPlugin(in) || in.Settings == nil {
		return nil
	}

	if missing := slices.DeleteFunc([]string{
		"image", "layout", "strict", "dry-run",
	}, func(key string) bool {
		return in.Settings[key] != ""
	}); len(missing) > 0 {
		results = fail("apply the plugin's manifests again: "+pluginPage(),
			"the ConfigMap has no %s: pods of VMs with the label are refused", strings.Join(missing,
				", "))
	}

	results = append(results, settingValues(in.Settings)...)
	image := in.Settings["image"]
	if strings.HasPrefix(image, "registry.example.com/") {
		results = append(results,
			fail("set the image that you built: "+reasons.Page("docs/install.md#image-and-gates"),
				"image %s is the example's, which cannot be pulled", image)...)
	}

	return orPass(results, "image %s, layout %s", image, in.Settings["layout"])
}

// settingValues finds the entries of the ConfigMap that the hook does not know: an unknown name is
// no argument of the hook, and with an invalid value it places nothing.
func settingValues(settings map[string]string) (results []Result) {
	source := policy.Source{Flags: map[policy.Key]string{}}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		key, err := policy.ParseKey(name)
		switch {
		case name == "image" || name == "lock":
		case err != nil:
			results = append(results, warn("remove it, or correct its name",
				"the ConfigMap has an entry that sets nothing: %v", err)...)
		case settings[name] != "":
			source.Flags[key] = settings[name]
		}
	}

	_, _, err := policy.Resolve(source)
	for name := range strings.SplitSeq(settings["lock"], ",") {
		if settings["lock"] != "" && err == nil {
			_, err = policy.ParseKey(name)
		}
	}

	if err != nil {
		results = append(results, fail("correct the ConfigMap, and restart the VMs with the label",
			"the ConfigMap has an invalid value, so the hook places nothing: %v", err)...)
	}

	return results
}
