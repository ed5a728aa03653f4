package fit

import (
	"fmt"
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// TestPools counts VMs with one GPU of pools that one node reaches, or several.
func TestPools(t *testing.T) {
	gpus := func(first, n int, fields string) string {
		var devices []string
		for i := range n {
			devices = append(devices, fmt.Sprintf("{name: g%d%s}", first+i, fields))
		}
		return "devices: [" + strings.Join(devices, ", ") + "]"
	}

	slice := func(pool string, count int, fields ...string) string {
		return fmt.Sprintf("kind: ResourceSlice\nspec: {driver: x, pool: {name: %s, "+
			"generation: 1, resourceSliceCount: %d}, %s}", pool, count, strings.Join(fields, ", "))
	}

	const onA = "nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, " +
		"operator: In, values: [a]}]}]}"
	tests := []struct {
		name   string
		slices []string
		a, b   int // on each node
		sum    int
		why    string // of a
	}{
		{"of a node each", []string{
			slice("a", 1, "nodeName: a", gpus(0, 2, "")),
			slice("b", 1, "nodeName: b", gpus(0, 1, "")),
		}, 2, 1, 3, ""},
		{"of all nodes", []string{slice("net", 1, "allNodes: true", gpus(0, 1, ""))}, 1, 1, 1, ""},
		// VMs whose node has a GPU of its own leave the others to the rest.
		{"of all nodes beside those of one", []string{
			slice("net", 1, "allNodes: true", gpus(0, 2, "")),
			slice("b", 1, "nodeName: b", gpus(0, 3, "")),
		}, 2, 5, 5, ""},
		{"of the nodes with a label", []string{slice("net", 1, onA, gpus(0, 2, ""))}, 2, 0, 2, ""},
		{"of a node per device", []string{
			slice("net", 1, "perDeviceNodeSelection: true",
				"devices: [{name: g0, nodeName: a}, {name: g1, nodeName: b}, {name: g2, allNodes: true}]"),
		}, 2, 2, 3, ""},
		// The scheduler counts the slices of all nodes.
		{"one pool for two nodes", []string{
			slice("rack", 2, "nodeName: a", gpus(0, 1, "")),
			slice("rack", 2, "nodeName: b", gpus(1, 1, "")),
		}, 1, 1, 2, ""},
		{"one pool for two nodes, incomplete", []string{
			slice("rack", 3, "nodeName: a", gpus(0, 1, "")),
			slice("rack", 3, "nodeName: b", gpus(1, 1, "")),
		}, 0, 0, 0,
			"0 of 1 x are free, 1 needed; 1 not counted: pool rack of x has 2 of its 3 ResourceSlices"},
		{"with taints", []string{
			slice("a", 1, "nodeName: a",
				gpus(0, 2, ", taints: [{key: bad, value: ecc, effect: NoExecute}]")),
		}, 0, 0, 0,
			"0 of 2 x are free, 1 needed; 2 not counted: taint bad=ecc:NoExecute"},
		{"with a taint that the request tolerates", []string{
			slice("a", 1, "nodeName: a", gpus(0, 2, ", taints: [{key: fine, effect: NoSchedule}]")),
		}, 2, 0, 2, ""},
		{"with a taint without effect", []string{
			slice("a", 1, "nodeName: a", gpus(0, 2, ", taints: [{key: bad, effect: None}]")),
		}, 2, 0, 2, ""},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			const class = "kind: DeviceClass\nmetadata: {name: x}\n" +
				"spec: {selectors: [{cel: {expression: 'device.driver == \"x\"'}}]}"
			o, err := parse(append(test.slices, class, oneGPU,
				"kind: List\nitems: [{kind: Node, metadata: {name: a}}, {kind: Node, metadata: {name: b}}]")...)
			if err != nil {
				t.Fatal(err)
			}

			shape := shapeOf(t, o)
			answer := answerFor(t, o, shape)
			a, b := answer.Nodes[0], answer.Nodes[1]
			if a.Now != test.a || b.Now != test.b || answer.Now != test.sum ||
				answer.Empty != test.sum || test.why != "" && a.Why != test.why {
				t.Errorf("%d and %d fit, %d in all, %d when empty, why not %q; want %d, %d, %d, %q",
					a.Now, b.Now, answer.Now, answer.Empty, a.Why, test.a, test.b, test.sum, test.why)
			}

			claim := shape.Claims[0]
			for _, n := range answer.Nodes {
				if want := scheduled(t, o, n.Name, claim); n.Now != want {
					t.Errorf("node %s: %d fit, the scheduler allocates %d", n.Name, n.Now, want)
				}
			}
		})
	}
}

const oneGPU = `kind: VirtualMachine
spec: {template: {spec: {resourceClaims: [{name: d, resourceClaimTemplateName: t}]}}}
---
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {spec: {devices: {requests: [{name: g, exactly: {deviceClassName: x, tolerations: [{key: fine, operator: Exists}]}}]}}}
`

// TestRefusedShapes: a VM of which any number would fit is not counted.
func TestRefusedShapes(t *testing.T) {
	const claim = "kind: VirtualMachine\nspec: {template: {spec: {resourceClaims: [{name: d, " +
		"resourceClaimTemplateName: t}]}}}\n---\nkind: ResourceClaimTemplate\n" +
		"metadata: {name: t}\nspec: {spec: {devices: {requests: "
	for name, vm := range map[string]string{
		"nothing": "kind: VirtualMachine\nspec: {template: {spec: {domain: {cpu: {cores: 2}}}}}",
		"requests of 0": "kind: VirtualMachine\nspec: {template: {spec: {domain: {resources: {" +
			"requests: {cpu: '0'}, limits: {memory: '0'}}}}}}",
		"an instance type": "kind: VirtualMachine\n" +
			"spec: {instancetype: {name: u1.large}, template: {spec: {domain: {}}}}",
		"administration": claim +
			"[{name: g, exactly: {deviceClassName: x, adminAccess: true}}]}}}",
		"a claim of nothing": claim + "[]}}}",
	} {
		o, err := parse(vm)
		if err != nil {
			t.Fatal(err)
		}

		if _, err := NewShape(o); err == nil ||
			!strings.Contains(err.Error(),
				"it requests no devices, dedicated CPUs or memory, so any number would fit") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestOtherKinds: without a VM the message names what the files have.
func TestOtherKinds(t *testing.T) {
	o, err := parse("kind: Pod\n---\nkind: Deployment\n---\nkind: Service\n")
	expect.NoError(t, err)
	const want = "read VM: the files have no VirtualMachine and no VirtualMachineInstance; " +
		"other objects in them are of kind Deployment, Service"
	if _, err := NewShape(o); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestUncounted names what a VM asks for that is not counted.
func TestUncounted(t *testing.T) {
	o, err := parse(`kind: VirtualMachine
spec:
  instancetype: {name: u1.large}
  template:
    spec:
      affinity: {podAntiAffinity: {}}
      topologySpreadConstraints: [{}]
      domain: {memory: {guest: 1Gi}}
`)

	if err != nil {
		t.Fatal(err)
	}

	o.Nodes = append(o.Nodes, fleet.Node("a"))
	shape := shapeOf(t, o)
	answer := answerFor(t, o, shape)
	const want = "not counted: the CPUs, memory and devices of instance type u1.large\n" +
		"not counted: the VM's affinity to other pods\nnot counted: the VM's topology spread constraints"
	if got := strings.Join(answer.Notes, "\n"); got != want {
		t.Errorf("notes:\n%s\nwant:\n%s", got, want)
	}
}

// TestParseNames: an error names the file and the object.
func TestParseNames(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: many}}": "file 0: parse Node a: ",
		"just text":            "file 0: parse objects: ",
		"kind: Node\n---\n- a": "file 0: document at line 2: parse objects: ",
		"kind: List\nitems: [{metadata: {name: a}}]": `file 0: parse objects: object "a" has no kind`,
		"kind: Node\nspec: {}\nspec: {}": `file 0: parse objects: yaml: ` +
			"unmarshal errors:\n  line 3: key \"spec\" already set in map",
		"a: [": "file 0: parse objects: yaml: line 1: did not find expected node content",
		"kind: ResourceSlice\napiVersion: resource.k8s.io/v1beta2\nmetadata: {name: a}": "" +
			"file 0: ResourceSlice a is of resource.k8s.io/v1beta2, must be of resource.k8s.io/v1",
	} {
		if _, err := parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
