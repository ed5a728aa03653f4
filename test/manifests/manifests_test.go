package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/virt-config/featuregate"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/reasons"
	"hook-sidecar/test/expect"
)

// label requests the plugin for a VM.
const label = policy.AnnotationPrefix + "placement"

func TestFilesDecode(t *testing.T) {
	for _, file := range files(t) {
		if len(decode(t, file, read(t, file))) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
	for _, overlay := range kustomizations(t) {
		var k types.Kustomization
		if err := k.Unmarshal(read(t, filepath.Join(overlay, "kustomization.yaml"))); err != nil {
			t.Errorf("%s: %v", overlay, err)
		}
	}
}

// templates returns the metadata and specs of the VMIs that the files make.
func templates(t *testing.T) map[string]*kubevirtv1.VirtualMachineInstanceTemplateSpec {
	t.Helper()
	found := map[string]*kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	for _, file := range files(t) {
		for _, object := range decode(t, file, read(t, file)) {
			switch o := object.(type) {
			case *kubevirtv1.VirtualMachine:
				if len(o.Annotations)+len(o.Labels) != 0 {
					t.Errorf("%s: annotations and labels belong in the template, KubeVirt does "+
						"not copy the VM's", file)
				}
				found[file] = o.Spec.Template
			case *kubevirtv1.VirtualMachineInstance:
				found[file] = &kubevirtv1.VirtualMachineInstanceTemplateSpec{
					ObjectMeta: o.ObjectMeta, Spec: o.Spec,
				}
			}
		}
	}

	return found
}

// TestVMs: every VM of the examples has guest NUMA cells and asks for the hook in
// one way, and the hook knows each of its annotations.
func TestVMs(t *testing.T) {
	ways := map[string]bool{}
	for file, vmi := range templates(t) {
		cpu, memory := vmi.Spec.Domain.CPU, vmi.Spec.Domain.Memory
		if cpu == nil || !cpu.DedicatedCPUPlacement || cpu.NUMA == nil ||
			cpu.NUMA.GuestMappingPassthrough == nil || memory == nil || memory.Hugepages == nil {
			t.Errorf("%s: no guest NUMA cells", file)
		}

		if len(vmi.Spec.Domain.Devices.GPUs) == 0 {
			t.Errorf("%s: no device", file)
		}

		for name := range vmi.ObjectMeta.Annotations {
			if !strings.HasPrefix(name, policy.AnnotationPrefix) &&
				name != hooks.HookSidecarListAnnotationName {
				t.Errorf("%s: annotation %s", file, name)
			}
		}

		_, problems, err := policy.Resolve(policy.Source{
			Annotations: vmi.ObjectMeta.Annotations, HasVMI: true,
		})

		if err != nil || len(problems) != 0 {
			t.Errorf("%s: policy: %v, %v", file, problems, err)
		}

		list, asks := vmi.ObjectMeta.Annotations[hooks.HookSidecarListAnnotationName]
		if asks == (vmi.ObjectMeta.Labels[label] == "enabled") {
			t.Errorf("%s: want either the annotation or the label that asks for the hook", file)
		}

		if asks {
			wantSidecar(t, file, list)
		}

		ways[filepath.Base(filepath.Dir(file))] = true
	}

	for _, way := range []string{"annotation", "shim", "plugin"} {
		if !ways[way] {
			t.Errorf("no example in directory %s", way)
		}
	}
}

func wantSidecar(t *testing.T, file, list string) {
	t.Helper()
	var sidecars hooks.HookSidecarList
	strictJSON(t, []byte(list), &sidecars)
	if len(sidecars) != 1 || sidecars[0].Image == "" ||
		strings.Join(sidecars[0].Args, " ") != "--version v1alpha3" {
		t.Errorf("%s: sidecars %+v", file, sidecars)
	}
}

// TestFeatureGates: KubeVirt silently ignores gates that it does not know.
func TestFeatureGates(t *testing.T) {
	objects := decode(t, "kubevirt.yaml", read(t, filepath.Join(dir, "kubevirt", "kubevirt.yaml")))
	kubevirt := one[*kubevirtv1.KubeVirt](t, objects)
	gates := kubevirt.Spec.Configuration.DeveloperConfiguration.FeatureGates
	for _, gate := range gates {
		info := featuregate.FeatureGateInfo(gate)
		if info == nil || info.State == featuregate.GA || info.State == featuregate.Deprecated ||
			info.State == featuregate.Discontinued {
			t.Errorf("gate %s has no effect in KubeVirt 1.9: %+v", gate, info)
		}
	}

	for _, gate := range []string{
		featuregate.SidecarGate, featuregate.PluginsGate, featuregate.CPUManager,
		featuregate.HostDevicesGate,
	} {
		if !strings.Contains(" "+strings.Join(gates, " ")+" ", " "+gate+" ") {
			t.Errorf("gate %s is missing", gate)
		}
	}
}

// overlays returns the settings that each kustomization changes.
func overlays() map[string]map[string]string {
	return map[string]map[string]string{
		"plugin":          {},
		"overlays/numa":   {"layout": "numa"},
		"overlays/root":   {"layout": "root"},
		"overlays/mirror": {"layout": "mirror"},
		"overlays/dry-run": {"dry-run": "true",
			"lock": "add,companions,viommu,gpudirect-clique,dry-run"},
		"overlays/strict": {"strict": "true",
			"lock": "add,companions,viommu,gpudirect-clique,strict,layout,dry-run"},
		"overlays/kubernetes-1.34": {},
		"overlays/kubevirt-1.10":   {},
	}
}

// TestOverlays: each overlay changes these settings of the base and nothing else.
func TestOverlays(t *testing.T) {
	overlays := overlays()
	base := one[*corev1.ConfigMap](t, build(t, filepath.Join(dir, "plugin")))
	seen := 0
	for _, overlay := range kustomizations(t) {
		name, err := filepath.Rel(dir, overlay)
		expect.NoError(t, err)
		change, ok := overlays[filepath.ToSlash(name)]
		if !ok {
			t.Errorf("%s is not in this test", name)
			continue
		}

		seen++
		objects := build(t, overlay)
		want := maps.Clone(base.Data)
		maps.Copy(want, change)
		if got := one[*corev1.ConfigMap](t, objects).Data; !maps.Equal(got, want) {
			t.Errorf("%s: settings %v, want %v", name, got, want)
		}

		if filepath.Base(overlay) != newerPlugin {
			one[*pluginv1alpha1.Plugin](t, objects)
		}

		if name == filepath.FromSlash("overlays/kubernetes-1.34") {
			one[*admissionv1beta1.MutatingAdmissionPolicyBinding](t, objects)
			wantSamePolicy(t, objects)
			continue
		}

		one[*admissionv1.MutatingAdmissionPolicy](t, objects)
		one[*admissionv1.MutatingAdmissionPolicyBinding](t, objects)
	}

	if seen != len(overlays) {
		t.Errorf("%d kustomizations, want %d", seen, len(overlays))
	}
}

// TestOverlaysCombine: an overlay of KubeVirt's or Kubernetes' version with the patches of
// another has what both change, as docs/install.md says.
func TestOverlaysCombine(t *testing.T) {
	copied := t.TempDir()
	expect.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	own := filepath.Join(copied, "overlays", "own")
	expect.NoError(t, os.Mkdir(own, 0o755))

	for second, changes := range overlays() {
		for _, first := range []string{"overlays/kubevirt-1.10", "overlays/kubernetes-1.34"} {
			if second == "plugin" || second == first {
				continue
			}

			var k types.Kustomization
			expect.NoError(t,
				k.Unmarshal(read(t, filepath.Join(copied, second, "kustomization.yaml"))))
			k.Resources = []string{"../../" + first}
			text, err := yaml.Marshal(k)
			expect.NoError(t, err)
			expect.NoError(t, os.WriteFile(filepath.Join(own, "kustomization.yaml"), text, 0o600))
			settings := maps.Clone(one[*corev1.ConfigMap](t,
				build(t, filepath.Join(dir, "plugin"))).Data)
			maps.Copy(settings, changes)
			both := first + second
			for _, resource := range resources(t, own).Resources() {
				switch kind, got := resource.GetKind(), resource.MustYaml(); {
				case kind == "ConfigMap":
					expect.Same(t, settings, resource.GetDataMap(), "%s and %s", first, second)
				case kind == "Plugin" &&
					strings.Contains(got, "launcherHooks") != strings.Contains(both, newerPlugin),
					strings.HasPrefix(kind, "Mutating") &&
						strings.Contains(got, "v1beta1") != strings.Contains(both,
							"kubernetes-1.34"):
					t.Errorf("%s and %s: %s", first, second, got)
				}
			}
		}
	}
}

// TestPluginsDiffer: the overlay for 1.10 has the socket, condition and policy of 1.9.
func TestPluginsDiffer(t *testing.T) {
	is := plugin(t, "overlays/kubevirt-1.10")
	hooks, _, err := unstructured.NestedSlice(is, "spec", "launcherHooks")
	expect.NoError(t, err)
	delete(hooks[0].(map[string]any)["sidecar"].(map[string]any), "permittedHooks")
	unstructured.RemoveNestedField(is, "spec", "launcherHooks")
	expect.NoError(t, unstructured.SetNestedSlice(is, hooks, "spec", "domainHooks"))
	expect.Same(t, toJSON(t, plugin(t, "plugin")), toJSON(t, is),
		"1.10 renames a field and adds another (-1.9 +1.10)")
}

// plugin returns the Plugin that a kustomization makes.
func plugin(t *testing.T, kustomization string) map[string]any {
	t.Helper()
	for _, resource := range resources(t, filepath.Join(dir, kustomization)).Resources() {
		if resource.GetKind() == "Plugin" {
			object, err := resource.Map()
			expect.NoError(t, err)
			return object
		}
	}

	t.Fatalf("%s makes no Plugin", kustomization)
	return nil
}

// wantSamePolicy wants the same spec in the policy of v1beta1 as in that of v1.
func wantSamePolicy(t *testing.T, objects []runtime.Object) {
	t.Helper()
	old := one[*admissionv1beta1.MutatingAdmissionPolicy](t, objects)
	now := one[*admissionv1.MutatingAdmissionPolicy](t, build(t, filepath.Join(dir, "plugin")))
	if got, want := toJSON(t, old.Spec), toJSON(t, now.Spec); got != want {
		t.Errorf("v1beta1 has %s, v1 %s", got, want)
	}
}

// TestSet: images and namespace of kustomize change all places that name them, in the base and in
// an overlay.
func TestSet(t *testing.T) {
	for _, edited := range []string{"plugin", "overlays/mirror"} {
		copied := t.TempDir()
		expect.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		file := filepath.Join(copied, edited, "kustomization.yaml")
		text := string(read(t, file)) + `
images: [{name: registry.example.com/hook-sidecar, newName: registry.corp/hook, newTag: v2}]
namespace: hyperconverged
`

		expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		objects := build(t, filepath.Join(copied, "overlays", "mirror"))
		settings := one[*corev1.ConfigMap](t, objects)
		expect.Same(t, "registry.corp/hook:v2 in hyperconverged", settings.Data["image"]+" in "+
			settings.Namespace, "settings")
		expect.Same(t, "hyperconverged",
			one[*admissionv1.MutatingAdmissionPolicyBinding](t,
				objects).Spec.ParamRef.Namespace, "paramRef")
	}
}

// TestLocks: with no kustomization does the owner of a VM get, by an annotation, what is
// the node's: a function that Kubernetes did not allocate to the VM, locked memory,
// transfers over shared switches.
func TestLocks(t *testing.T) {
	for _, overlay := range kustomizations(t) {
		resolved, warnings := asked(t, overlay, map[string]string{
			"add": "all", "companions": "add", "viommu": "intel", "gpudirect-clique": "host",
		})
		if len(warnings) != 4 || resolved.Add != policy.AddRequested ||
			resolved.Companions != policy.CompanionsKeep ||
			resolved.VIOMMU != policy.VIOMMUNone || resolved.Clique != "none" {
			t.Errorf("%s: %+v, warnings %v", overlay, resolved, warnings)
		}
	}
}

// TestStrictLocks: no annotation turns the overlay strict off, by whatever key.
func TestStrictLocks(t *testing.T) {
	overlay := filepath.Join(dir, "overlays", "strict")
	resolved, _ := asked(t, overlay, map[string]string{
		"strict": "false", "layout": "keep", "dry-run": "true",
	})

	if !resolved.Strict || resolved.DryRun || resolved.Layout == policy.LayoutKeep {
		t.Errorf("strict %t, dry run %t, layout %s", resolved.Strict, resolved.DryRun,
			resolved.Layout)
	}
}

// asked returns the policy of a VM with these annotations under a kustomization.
func asked(
	t *testing.T, overlay string, keys map[string]string,
) (policy.Policy, []reasons.Finding) {
	t.Helper()
	settings := one[*corev1.ConfigMap](t, build(t, overlay)).Data
	source := policy.Source{
		HasVMI: true, AnnotationsFirst: true, Annotations: map[string]string{},
		Flags: map[policy.Key]string{
			policy.KeyLayout: settings["layout"],
			policy.KeyStrict: settings["strict"],
			policy.KeyDryRun: settings["dry-run"],
		},
	}

	for key := range strings.SplitSeq(settings["lock"], ",") {
		source.Locked = append(source.Locked, policy.Key(key))
	}

	for key, value := range keys {
		source.Annotations[policy.AnnotationPrefix+key] = value
	}

	resolved, warnings, err := policy.Resolve(source)
	if err != nil {
		t.Fatalf("%s: %v", overlay, err)
	}

	return resolved, warnings
}
