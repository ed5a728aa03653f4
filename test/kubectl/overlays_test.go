package kubectl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// apply applies a directory of manifests with kubectl, as docs/install.md says, and returns its
// failure.
func (c *cluster) apply(t *testing.T, dir string, flags ...string) (failure string) {
	t.Helper()
	kubectl := strings.TrimSpace(string(command(t, "go", "tool", "-n", "kubectl")))
	cmd := exec.Command(kubectl,
		append([]string{"apply", "-k", filepath.Join("../../manifests", dir)}, flags...)...)
	cmd.Env = []string{"KUBECONFIG=" + c.kubeconfig(t, "admin"), "HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}

	return ""
}

// says waits until doctor says so of the cluster.
func (c *cluster) says(t *testing.T, want string) {
	t.Helper()
	until(t, want, func() error {
		if out := c.as(t, "admin", "doctor").out; !strings.Contains(out, want) {
			return errors.New(out)
		}
		return nil
	})
}

// createKubeVirt makes KubeVirt 1.9.0's object, and the definition of its plugins.
func (c *cluster) createKubeVirt(t *testing.T) {
	t.Helper()
	newer, err := os.ReadFile("testdata/plugin-crd-1.10.yaml")
	if err != nil {
		t.Fatal(err)
	}

	definition := fromYAML(t, newer)
	definition["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"] = kubeVirtSchemas(t)["plugin"]
	c.create(t, definitions, definition)
	c.createNamespace(t, "kubevirt")
	c.create(t, resource("kubevirt.io", "v1", "kubevirts"), fromYAML(t, []byte(`
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {configuration: {developerConfiguration: {featureGates: [Plugins]}}}
status: {observedKubeVirtVersion: v1.9.0}
`)))

	until(t, "the definition of plugins", func() error {
		_, err := c.client.Resource(resource("plugin.kubevirt.io", "v1alpha1", "plugins")).List(
			t.Context(), metav1.ListOptions{})
		return err
	})
}

// definitions is the resource of CustomResourceDefinitions.
var definitions = resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")

// The API server stores the whole of each version's overlay, refuses the other's Plugin unless it
// is to warn only, and removes the hook of a Plugin that it had before KubeVirt's upgrade, which
// doctor reports. The definition of 1.10 has the fields that are known so far.
func (c *cluster) testOverlays(t *testing.T) {
	newer, err := os.ReadFile("testdata/plugin-crd-1.10.yaml")
	if err != nil {
		t.Fatal(err)
	}

	upgrade, err := yaml.YAMLToJSON(newer)
	if err != nil {
		t.Fatal(err)
	}

	kubeVirts := c.client.Resource(resource("kubevirt.io", "v1", "kubevirts")).Namespace("kubevirt")
	if _, err := kubeVirts.Patch(t.Context(), "kubevirt", types.MergePatchType,
		[]byte(`{"status": {"observedKubeVirtVersion": "v1.10.0"}}`), metav1.PatchOptions{},
		"status"); err != nil {
		t.Fatal(err)
	}

	until(t, "the definition of 1.9", func() error {
		if failure := c.apply(t, "plugin"); failure != "" {
			return errors.New(failure)
		}
		return nil
	})

	same(t, "apply kubernetes-1.34", c.apply(t, "overlays/kubernetes-1.34"), "")
	if got := c.apply(t, "overlays/kubevirt-1.10"); !strings.Contains(got,
		`strict decoding error: unknown field "spec.launcherHooks"`) {
		t.Errorf("kubevirt-1.10 in 1.9: %s", got)
	}

	if _, err := c.client.Resource(definitions).Patch(t.Context(), "plugins.plugin.kubevirt.io",
		types.MergePatchType, upgrade, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}

	const without, with = "Plugin hostdev has no hook in KubeVirt v1.10.0", "Plugin hostdev " +
		"has a hook"
	c.says(t, without)
	if got := c.apply(t, "plugin"); !strings.Contains(got,
		`strict decoding error: unknown field "spec.domainHooks"`) {
		t.Errorf("plugin in 1.10: %s", got)
	}

	same(t, "apply kubevirt-1.10", c.apply(t, "overlays/kubevirt-1.10"), "")
	c.says(t, with)
	same(t, "apply plugin", c.apply(t, "plugin", "--validate=warn"), "")
	c.says(t, without)
}
