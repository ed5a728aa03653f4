package manifests

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"hook-sidecar/test/expect"
)

// resourceDefinition validates objects with kube-apiserver's code for a custom resource.
type resourceDefinition struct {
	properties *apiextensions.JSONSchemaProps
	structural *schema.Structural
}

func newResourceDefinition(t *testing.T, crd *extensionsv1.CustomResourceDefinition) resourceDefinition {
	t.Helper()
	d := resourceDefinition{properties: &apiextensions.JSONSchemaProps{}}
	expect.NoError(t, extensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, d.properties, nil))
	var err error
	d.structural, err = schema.NewStructural(d.properties)
	expect.NoError(t, err)
	return d
}

// refusals are the reasons for which kube-apiserver refuses an object that `kubectl apply` sends.
// kubectl requests strict validation, in which an unknown field is an error.
func (d resourceDefinition) refusals(t *testing.T, object map[string]any) string {
	t.Helper()
	var all []string
	unknown := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, d.structural, true, unknown) {
		all = append(all, `unknown field "`+path+`"`)
	}
	validator, _, err := validation.NewSchemaValidator(d.properties)
	expect.NoError(t, err)
	errs := validation.ValidateCustomResource(nil, object, validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	rules, _ := cel.NewValidator(d.structural, true, celconfig.PerCallLimit).
		Validate(context.Background(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, rules...) {
		all = append(all, err.Error())
	}
	return strings.Join(all, "\n")
}

// pluginDefinitions are the CRDs of Plugin by version of KubeVirt. That of 1.10 is not KubeVirt's own:
// its file says what is known.
func pluginDefinitions(t *testing.T) map[string]resourceDefinition {
	t.Helper()
	own := &extensionsv1.CustomResourceDefinition{}
	own.Spec.Versions = []extensionsv1.CustomResourceDefinitionVersion{{Schema: &extensionsv1.CustomResourceValidation{}}}
	// The operator's package cannot be linked here: it needs OpenShift's modules.
	source := string(read(t, filepath.Join(kubeVirtModule(t), "pkg/virt-operator/resource/generate/components/validations_generated.go")))
	_, text, _ := strings.Cut(source, "\t\"plugin\": `")
	text, _, _ = strings.Cut(text, "`")
	expect.NoError(t, yaml.UnmarshalStrict([]byte(text), own.Spec.Versions[0].Schema))
	next := &extensionsv1.CustomResourceDefinition{}
	expect.NoError(t, yaml.UnmarshalStrict(read(t, filepath.Join("testdata", "plugin-crd-1.10.yaml")), next))
	return map[string]resourceDefinition{"1.9": newResourceDefinition(t, own), "1.10": newResourceDefinition(t, next)}
}

// plugin returns the Plugin that a kustomization makes.
func plugin(t *testing.T, kustomization string) *unstructured.Unstructured {
	t.Helper()
	for _, resource := range resources(t, filepath.Join(dir, kustomization)).Resources() {
		if resource.GetKind() == "Plugin" {
			object, err := resource.Map()
			expect.NoError(t, err)
			return &unstructured.Unstructured{Object: object}
		}
	}
	t.Fatalf("%s makes no Plugin", kustomization)
	return nil
}

// TestPluginObjects: each version of KubeVirt accepts its own manifest and refuses the other's, so that
// nobody applies a Plugin without a hook.
func TestPluginObjects(t *testing.T) {
	definitions := pluginDefinitions(t)
	for _, tt := range []struct{ version, kustomization, refusal string }{
		{"1.9", "plugin", ""},
		{"1.10", "overlays/kubevirt-1.10", ""},
		{"1.9", "overlays/kubevirt-1.10", `unknown field "spec.launcherHooks"`},
		{"1.10", "plugin", `unknown field "spec.domainHooks"`},
	} {
		if got := definitions[tt.version].refusals(t, plugin(t, tt.kustomization).Object); got != tt.refusal {
			t.Errorf("%s in KubeVirt %s: %q, want %q", tt.kustomization, tt.version, got, tt.refusal)
		}
	}
}

// TestPluginRules: what 1.10 refuses of a hook that is otherwise ours.
func TestPluginRules(t *testing.T) {
	definition := pluginDefinitions(t)["1.10"]
	for name, tt := range map[string]struct {
		change  func(hook, sidecar map[string]any)
		refusal string
	}{
		"another plugin's socket": {func(_, sidecar map[string]any) { sidecar["socketPath"] = "/var/run/kubevirt-plugin/other/hook.sock" }, "must start with"},
		"a path that leaves it":   {func(_, sidecar map[string]any) { sidecar["socketPath"] = "/var/run/kubevirt-plugin/hostdev/../x" }, "must be clean"},
		"nothing permitted":       {func(_, sidecar map[string]any) { sidecar["permittedHooks"] = []any{} }, "at least 1 items"},
		"a name of 1.9":           {func(_, sidecar map[string]any) { sidecar["permittedHooks"] = []any{"MutateDomain"} }, "Unsupported value"},
		"permitted twice": {func(_, sidecar map[string]any) {
			sidecar["permittedHooks"] = []any{"GuestDefinition", "GuestDefinition"}
		}, "Duplicate value"},
		"cel, too": {func(hook, _ map[string]any) { hook["cel"] = map[string]any{"hookPoint": "x", "expression": "y"} }, "exactly one"},
		"no time":  {func(hook, _ map[string]any) { hook["timeout"] = "0s" }, "more than 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			object := plugin(t, "overlays/kubevirt-1.10")
			hooks, _, err := unstructured.NestedSlice(object.Object, "spec", "launcherHooks")
			expect.NoError(t, err)
			hook := hooks[0].(map[string]any)
			tt.change(hook, hook["sidecar"].(map[string]any))
			expect.NoError(t, unstructured.SetNestedSlice(object.Object, hooks, "spec", "launcherHooks"))
			if got := definition.refusals(t, object.Object); !strings.Contains(got, tt.refusal) {
				t.Errorf("%q, want %q", got, tt.refusal)
			}
		})
	}
}

// TestPluginsDiffer: the overlay for 1.10 has the socket, condition and policy of 1.9.
func TestPluginsDiffer(t *testing.T) {
	was, is := plugin(t, "plugin"), plugin(t, "overlays/kubevirt-1.10")
	hooks, _, err := unstructured.NestedSlice(is.Object, "spec", "launcherHooks")
	expect.NoError(t, err)
	delete(hooks[0].(map[string]any)["sidecar"].(map[string]any), "permittedHooks")
	unstructured.RemoveNestedField(is.Object, "spec", "launcherHooks")
	expect.NoError(t, unstructured.SetNestedSlice(is.Object, hooks, "spec", "domainHooks"))
	expect.Same(t, toJSON(t, was.Object), toJSON(t, is.Object), "1.10 renames a field and adds another (-1.9 +1.10)")
}
