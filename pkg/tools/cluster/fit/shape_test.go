package fit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/test/expect"
)

// TestShape reads VMs as KubeVirt makes pods of them.
func TestShape(t *testing.T) {
	tests := []struct {
		name, spec string
		needs      map[corev1.ResourceName]string
	}{
		{"dedicated CPUs and huge pages", `
      domain:
        cpu: {cores: 8, sockets: 2, threads: 2, dedicatedCpuPlacement: true}
        memory: {guest: 64Gi, hugepages: {pageSize: 1Gi}}`,
			map[corev1.ResourceName]string{"cpu": "32", "hugepages-1Gi": "64Gi"}},
		{"shared CPUs", `
      domain:
        cpu: {cores: 8}
        memory: {guest: 64Gi}`,
			map[corev1.ResourceName]string{"memory": "64Gi"}},
		{"requests", `
      domain:
        cpu: {cores: 8}
        resources: {requests: {cpu: "4", memory: 1Gi}}`,
			map[corev1.ResourceName]string{"cpu": "4", "memory": "1Gi"}},
		{"huge pages of a request", `
      domain:
        memory: {hugepages: {pageSize: 2Mi}}
        resources: {requests: {memory: 1Gi}}`,
			map[corev1.ResourceName]string{"hugepages-2Mi": "1Gi"}},
		{"dedicated CPUs and memory by limits", `
      domain:
        cpu: {dedicatedCpuPlacement: true}
        memory: {guest: 2Gi}
        resources: {limits: {cpu: "6", memory: 1Gi}}`,
			map[corev1.ResourceName]string{"cpu": "6", "memory": "1Gi"}},
		{"device plugins", `
      domain:
        devices:
          gpus: [{name: a, deviceName: nvidia.com/GH100}, {name: b, deviceName: nvidia.com/GH100}]
          hostDevices: [{name: c, deviceName: nvidia.com/CX7}]`,
			map[corev1.ResourceName]string{"nvidia.com/GH100": "2", "nvidia.com/CX7": "1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, err := parse("kind: VirtualMachine\nspec:\n  template:\n    spec:" + test.spec)
			if err != nil {
				t.Fatal(err)
			}

			shape := shapeOf(t, o)
			needs := map[corev1.ResourceName]string{}
			for name, q := range shape.Needs {
				needs[name] = q.String()
			}

			expect.Same(t, test.needs, needs, "needs (-want +got)")
		})
	}
}

// TestParse reads lists, whose items may have no kind, and refuses what would be counted wrong.
func TestParse(t *testing.T) {
	if _, err := parse("kind: ResourceSlice\napiVersion: resource.k8s.io/v1beta1"); err == nil {
		t.Error("a slice of v1beta1 is read as one of v1")
	}

	o, err := parse("kind: NodeList\napiVersion: v1\nitems: [{metadata: {name: a}}]\n---\n"+
		"kind: Secret\n", "kind: List\nitems: [{kind: Node}, {kind: Pod}]")
	if err != nil || len(o.Nodes) != 2 || len(o.Pods) != 1 {
		t.Errorf("%d nodes and %d pods of two lists, want 2 and 1: %v", len(o.Nodes), len(o.Pods),
			err)
	}
}

// TestParseLengths: no object is lost, whatever the length of the file.
func TestParseLengths(t *testing.T) {
	const begin, end = "kind: Node\nmetadata: {name: a}\n---\n" +
		`{"kind": "Node", "metadata": {"name": "b"}, "status": {"phase": "`, `"}}`
	for _, length := range []int{4095, 4096, 4097, 8192} {
		text := begin + strings.Repeat("x", length-len(begin+end)) + end
		if o, err := parse(text); err != nil || len(o.Nodes) != 2 {
			t.Errorf("%d of 2 nodes of %d bytes: %v", len(o.Nodes), len(text), err)
		}
	}
}
