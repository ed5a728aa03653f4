package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubevirtv1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"hook-sidecar/test/expect"
)

// dir is where the manifests are.
const dir = "../../manifests"

// scheme returns the kinds of the manifests, and no others.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, admissionv1.AddToScheme,
		admissionv1beta1.AddToScheme, batchv1.AddToScheme, kubevirtv1.AddToScheme, pluginv1alpha1.AddToScheme,
	} {
		expect.NoError(t, add(s))
	}

	return s
}

// decode decodes documents of YAML; an unknown or duplicate field is an error.
func decode(t *testing.T, name string, documents []byte) []runtime.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme(t),
		serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	var objects []runtime.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}

		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		var written map[string]any
		if err := yaml.Unmarshal(document, &written); err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		for _, field := range lost("", written, generic(t, object)) {
			t.Errorf("%s: the type does not know the field %s", name, field)
		}

		objects = append(objects, object)
	}
}

// lost returns the fields that the type does not have. The strict decoder does not report all of
// them: the VMI's type has a decoder of its own that accepts anything (KubeVirt's api
// core/v1/types.go, UnmarshalJSON).
func lost(path string, written, kept any) []string {
	var fields []string
	switch w := written.(type) {
	case map[string]any:
		k, _ := kept.(map[string]any)
		for name, value := range w {
			if inner, ok := k[name]; ok {
				fields = append(fields, lost(path+"."+name, value, inner)...)
			} else if value != nil && value != "" && value != false {
				fields = append(fields, path+"."+name)
			}
		}
	case []any:
		k, _ := kept.([]any)
		for i := range w {
			if i < len(k) {
				fields = append(fields, lost(fmt.Sprintf("%s[%d]", path, i), w[i], k[i])...)
			}
		}
	}

	return fields
}

// generic returns an object as decoded JSON.
func generic(t *testing.T, object runtime.Object) map[string]any {
	t.Helper()
	var kept map[string]any
	expect.NoError(t, json.Unmarshal([]byte(toJSON(t, object)), &kept))
	return kept
}

// files returns the manifests without the kustomizations.
func files(t *testing.T) []string {
	t.Helper()
	return find(t, func(name string) bool {
		return strings.HasSuffix(name, ".yaml") && name != "kustomization.yaml" &&
			name != "fields.yaml"
	})
}

// kustomizations returns the directories from which kustomize builds the hook. Those of kubectl's plugin
// are left out: its rights and its CronJob are one file each.
func kustomizations(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, file := range find(t, func(name string) bool { return name == "kustomization.yaml" }) {
		if d := filepath.Dir(file); !slices.Contains([]string{"kubectl", "watch"}, filepath.Base(d)) {
			dirs = append(dirs, d)
		}
	}

	return dirs
}

func find(t *testing.T, wanted func(name string) bool) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && wanted(entry.Name()) {
			found = append(found, path)
		}
		return err
	})

	expect.NoError(t, err)
	if len(found) == 0 {
		t.Fatalf("no manifest in %s", dir)
	}

	return found
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return expect.File(t, file)
}

// newerPlugin is the kustomization whose Plugin is not of KubeVirt 1.9; test/kubectl applies it.
const newerPlugin = "kubevirt-1.10"

// build returns the objects that `kubectl apply -k` applies for a directory, but for a Plugin
// whose type the module does not have.
func build(t *testing.T, name string) []runtime.Object {
	t.Helper()
	built := resources(t, name)
	if filepath.Base(name) == newerPlugin {
		for _, resource := range built.Resources() {
			if resource.GetKind() == "Plugin" {
				expect.NoError(t, built.Remove(resource.CurId()))
			}
		}
	}

	documents, err := built.AsYaml()
	expect.NoError(t, err)
	return decode(t, name, documents)
}

// resources returns the objects of a kustomization.
func resources(t *testing.T, name string) resmap.ResMap {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		name)
	if err != nil {
		t.Fatalf("kustomize build %s: %v", name, err)
	}

	return built
}

// one returns the only object of a type; more or none fail the test.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}

	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want one", len(found), *new(T))
	}

	return found[0]
}

// strictJSON decodes JSON; an unknown field is an error.
func strictJSON(t *testing.T, data []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}
