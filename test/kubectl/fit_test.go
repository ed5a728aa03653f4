package kubectl

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Two HGX nodes as their drivers publish them are accepted by kube-apiserver, fit reads them
// there, and kube-apiserver accepts each claim that fit writes.
func (c *cluster) testFit(t *testing.T) {
	slices, err := os.ReadFile("../../testdata/slices/x86-2n8g-hgx-h100.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for document := range bytes.SplitSeq(slices, []byte("---\n")) {
		if object := fromYAML(t, document); object["kind"] == "DeviceClass" {
			c.create(t, resource("resource.k8s.io", "v1", "deviceclasses"), object)
		} else if object["kind"] == "ResourceSlice" {
			c.create(t, resource("resource.k8s.io", "v1", "resourceslices"), object)
		}
	}

	for _, name := range []string{"gpu-1", "gpu-2"} {
		c.create(t, resource("", "v1", "nodes"), map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name},
		})
	}

	c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterroles"),
		fromYAML(t, fitRole(t)))
	c.create(t, resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), fromYAML(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fit}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hostdev-fit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: fit}]
`)))

	for _, shape := range []string{
		"--gpus 1 --nics 1", "--gpus 4 --nics 1", "--gpus 4 --nics 4 --one-socket",
		"--gpus 8 --nics 8", "--gpus 4 --one-socket", "--nics 2 --pair=false",
	} {
		arguments := strings.Fields("fit --gpu-class vfio.gpu.nvidia.com --nic-class sriov " +
			shape)
		written := c.as(t, "fit", append(arguments, "--claim")...)
		if written.code != 0 || written.err != "" {
			t.Fatalf("%s: exit status %d: %s", shape, written.code, written.err)
		}

		claim := fromYAML(t, []byte(written.out))
		claim["metadata"].(map[string]any)["namespace"] = "default"
		c.create(t, resource("resource.k8s.io", "v1", "resourceclaimtemplates"), claim)
		if answer := c.as(t, "fit", arguments...); !strings.Contains(answer.out, "gpu-2") ||
			answer.err != "" {
			t.Errorf("%s: %s%s", shape, answer.out, answer.err)
		}

		if answer := c.as(t, "viewer", arguments...); !strings.Contains(answer.err,
			`cannot list resource "nodes"`) {
			t.Errorf("%s: who may not list nodes is not told so: %s%s", shape, answer.out,
				answer.err)
		}
	}
}

// fitRole returns the ClusterRole of fit.
func fitRole(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../manifests/kubectl/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}

	for _, role := range bytes.Split(data, []byte("\n---\n")) {
		if bytes.Contains(role, []byte("name: hostdev-fit\n")) {
			return role
		}
	}

	t.Fatal("no ClusterRole hostdev-fit")
	return nil
}
