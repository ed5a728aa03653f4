package fit

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
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
		{"device plugins", `
      domain:
        devices:
          gpus: [{name: a, deviceName: nvidia.com/GH100}, {name: b, deviceName: nvidia.com/GH100}]
          hostDevices: [{name: c, deviceName: nvidia.com/CX7}]`,
			map[corev1.ResourceName]string{"nvidia.com/GH100": "2", "nvidia.com/CX7": "1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o, err := Parse([]byte("kind: VirtualMachine\nspec:\n  template:\n    spec:" + test.spec))
			if err != nil {
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
		})
	}
}

// TestRequests: a file lacks the API server's defaults, and may lack a field of resource.k8s.io/v1, as
// one that was written for v1beta1 does. Of eight GPUs firstAvailable takes three, three, one and one.
func TestRequests(t *testing.T) {
	const class = "deviceClassName: vfio.gpu.nvidia.com"
	for request, want := range map[string]string{
		"firstAvailable: [{name: a, count: 3, " + class + "}, {name: b, " + class + "}]": "4 ", // 3, 3, 1, 1
		class:                              "0 read VM vm: request gpu has neither exactly nor firstAvailable",
		"exactly: {deviceClassName: none}": `0 there is no DeviceClass "none"`,
		"exactly: {selectors: [{cel: {expression: 'bad('}}], " + class + "}": "0 the scheduler's allocator: ",
	} {
		o, err := Parse([]byte(`
kind: ResourceClaimTemplate
apiVersion: resource.k8s.io/v1
metadata: {name: t}
spec: {spec: {devices: {requests: [{name: gpu, ` + request + `}]}}}
---
kind: VirtualMachine
metadata: {name: vm}
spec: {template: {spec: {resourceClaims: [{name: d, resourceClaimTemplateName: t}]}}}`))
		expect.NoError(t, err)
		shape, err := NewShape(o)
		got := fmt.Sprint("0 ", err)
		if err == nil {
			answer, err := New(objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV())).Count(t.Context(), shape)
			expect.NoError(t, err)
			got = fmt.Sprint(answer.Now, " ", answer.Nodes[0].Why)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}

// TestGenerations: a driver publishes a pool anew slice by slice; until the old ones are deleted, there
// are both. Of the newest generation, three devices are left.
func TestGenerations(t *testing.T) {
	o := objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV())
	next := o.Slices[0].DeepCopy()
	next.Spec.Pool.Generation, next.Spec.Devices = 2, next.Spec.Devices[:3]
	o.Slices = append(o.Slices, next)
	answer, _ := count(t, o, Wish{GPUs: 1, GPUClass: fleet.NVIDIA().Class}, false)
	if n := answer.Nodes[0]; n.Now != 3 || len(n.Devices) != 3+8 {
		t.Errorf("%d fit, of %d devices, want 3 of 3 GPUs and 8 NICs", n.Now, len(n.Devices))
	}
}

// TestParse reads lists, whose items may have no kind, and refuses what would be counted wrong.
func TestParse(t *testing.T) {
	if _, err := Parse([]byte("kind: ResourceSlice\napiVersion: resource.k8s.io/v1beta1")); err == nil {
		t.Error("a slice of v1beta1 is read as one of v1")
	}
	o, err := Parse([]byte("kind: NodeList\napiVersion: v1\nitems: [{metadata: {name: a}}]\n---\nkind: Secret\n"), []byte("kind: List\nitems: [{kind: Node}, {kind: Pod}]"))
	if err != nil || len(o.Nodes) != 2 || len(o.Pods) != 1 {
		t.Errorf("%d nodes and %d pods of two lists, want 2 and 1: %v", len(o.Nodes), len(o.Pods), err)
	}
}
