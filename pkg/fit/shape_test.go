package fit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/test/expect"
)

// TestShape reads VMs as KubeVirt makes pods of them.
func TestShape(t *testing.T) {
	tests := []struct {
		name, spec string
		needs      map[corev1.ResourceName]string
		unread     []string
	}{
		{"dedicated CPUs and huge pages", `
      domain:
        cpu: {cores: 8, sockets: 2, threads: 2, dedicatedCpuPlacement: true, isolateEmulatorThread: true}
        memory: {guest: 64Gi, hugepages: {pageSize: 1Gi}}`,
			map[corev1.ResourceName]string{"cpu": "33", "hugepages-1Gi": "64Gi"}, nil},
		{"shared CPUs", `
      domain:
        cpu: {cores: 8}
        memory: {guest: 64Gi}`,
			map[corev1.ResourceName]string{"memory": "64Gi"}, nil},
		{"requests", `
      domain:
        cpu: {cores: 8}
        resources: {requests: {cpu: "4", memory: 1Gi}}`,
			map[corev1.ResourceName]string{"cpu": "4", "memory": "1Gi"}, nil},
		{"device plugins", `
      domain:
        devices:
          gpus: [{name: a, deviceName: nvidia.com/GH100}, {name: b, deviceName: nvidia.com/GH100}]
          hostDevices: [{name: c, deviceName: nvidia.com/CX7}]
          interfaces: [{name: fast, sriov: {}}]`,
			map[corev1.ResourceName]string{"nvidia.com/GH100": "2", "nvidia.com/CX7": "1"},
			[]string{"interface fast: its network attachment definition names the resource"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var o Objects
			if err := o.Add([]byte("kind: VirtualMachine\nspec:\n  template:\n    spec:" + test.spec)); err != nil {
				t.Fatal(err)
			}
			shape, err := NewShape(o)
			if err != nil {
				t.Fatal(err)
			}
			needs := map[corev1.ResourceName]string{}
			for name, q := range shape.Needs {
				needs[name] = q.String()
			}
			expect.Same(t, test.needs, needs, "needs (-want +got)")
			expect.Same(t, test.unread, shape.Unread, "unread (-want +got)")
		})
	}
}

// TestObjects refuses what would be counted wrong.
func TestObjects(t *testing.T) {
	var o Objects
	if err := o.Add([]byte("kind: ResourceSlice\napiVersion: resource.k8s.io/v1beta1")); err == nil {
		t.Error("a slice of v1beta1 is read as one of v1")
	}
	if err := o.Add([]byte("kind: NodeList\napiVersion: v1\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]\n---\nkind: Secret\n")); err != nil || len(o.Nodes) != 2 {
		t.Errorf("%d nodes of a list, want 2: %v", len(o.Nodes), err)
	}
}
