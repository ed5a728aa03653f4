package fit

import (
	"strings"
	"testing"
)

// TestRoom puts one VM on one node beside another, and says how often it fits and why not.
func TestRoom(t *testing.T) {
	const cpus = "domain: {resources: {requests: {cpu: 400m}}}"
	tests := []struct {
		name       string
		spec       string // of the VM
		node       string // its fields beside the name
		now, empty int
		why        string
	}{
		{"thousandths of a CPU", cpus, "status: {allocatable: {cpu: 1200m}}", 3, 3, ""},
		{"one too few", cpus, "status: {allocatable: {cpu: 399m}}", 0, 0,
			"399m of cpu are free, and 400m are needed"},
		{"more memory than a float can count", "domain: {memory: {guest: '9007199254740993'}}",
			"status: {allocatable: {memory: '18014398509481985'}}", 1, 1, ""},
		{"pods", cpus, "status: {allocatable: {cpu: '8', pods: '2'}}", 2, 2, ""},
		{"no pod", cpus, "status: {allocatable: {cpu: '8', pods: '0'}}", 0, 0,
			"it has no room for another pod"},

		{"a label", cpus + "\nnodeSelector: {gpu: h100}",
			"metadata: {labels: {gpu: h100}}\nstatus: {allocatable: {cpu: 400m}}", 1, 1, ""},
		{"another label", cpus + "\nnodeSelector: {gpu: h100}",
			"metadata: {labels: {gpu: a100}}\nstatus: {allocatable: {cpu: 400m}}", 0, 0,
			"it lacks the label gpu=h100 of the VM's nodeSelector"},
		{"affinity", cpus +
			"\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
			"{nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: In, values: [h100, h200]}]}]}}}",
			"metadata: {labels: {gpu: a100}}\nstatus: {allocatable: {cpu: 400m}}", 0, 0,
			"it does not match the VM's node affinity"},
		{"affinity that is wished for", cpus +
			"\naffinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
			"[{weight: 1, preference: {matchExpressions: [{key: gpu, operator: Exists}]}}]}}",
			"status: {allocatable: {cpu: 400m}}", 1, 1, ""},
		{"affinity that cannot be parsed", cpus +
			"\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
			"{nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Near}]}]}}}",
			"status: {allocatable: {cpu: 400m}}", 0, 0,
			`the VM's node affinity: nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value`},

		{"virt-handler does not answer", cpus,
			"metadata: {labels: {kubevirt.io/schedulable: 'false'}}\n" +
				"status: {allocatable: {cpu: 400m}}", 0, 1,
			"it has the label kubevirt.io/schedulable=false: virt-handler does not run on it"},
		{"no CPU manager", "domain: {cpu: {cores: 1, dedicatedCpuPlacement: true}}",
			"metadata: {labels: {cpumanager: 'false'}}\nstatus: {allocatable: {cpu: '4'}}", 0, 0,
			"it has the label cpumanager=false, and KubeVirt demands true"},
		{"no CPU manager, and none is needed", cpus,
			"metadata: {labels: {cpumanager: 'false'}}\nstatus: {allocatable: {cpu: 400m}}", 1, 1,
			""},
		{"another architecture", cpus + "\narchitecture: arm64",
			"metadata: {labels: {kubernetes.io/arch: amd64}}\nstatus: {allocatable: {cpu: 400m}}",
			0, 0,
			"it has the label kubernetes.io/arch=amd64, and KubeVirt demands arm64"},

		{"not ready", cpus,
			"status: {allocatable: {cpu: 400m}, conditions: [{type: Ready, status: Unknown, " +
				"reason: NodeStatusUnknown}]}", 0, 1, "it is not ready: NodeStatusUnknown"},
		{"ready", cpus,
			"status: {allocatable: {cpu: 400m}, conditions: [{type: Ready, status: 'True'}]}", 1, 1,
			""},
		{"cordoned", cpus,
			"spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, " +
				"effect: NoSchedule}]}\nstatus: {allocatable: {cpu: 400m}}", 0, 1, "it is cordoned"},
		{"full disk", cpus,
			"spec: {taints: [{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}]}\n" +
				"status: {allocatable: {cpu: 400m}}", 0, 1,
			"it has the taint node.kubernetes.io/disk-pressure:NoSchedule"},
		{"a taint", cpus,
			"spec: {taints: [{key: gpu, value: 'yes', effect: NoSchedule}]}\n" +
				"status: {allocatable: {cpu: 400m}}", 0, 0,
			"the VM does not tolerate its taint gpu=yes:NoSchedule"},
		{"a taint that is tolerated", cpus + "\ntolerations: [{key: gpu, operator: Exists}]",
			"spec: {taints: [{key: gpu, value: 'yes', effect: NoSchedule}]}\n" +
				"status: {allocatable: {cpu: 400m}}", 1, 1, ""},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			vm := "kind: VirtualMachine\nspec:\n  template:\n    spec:\n      " +
				strings.ReplaceAll(test.spec, "\n", "\n      ")
			node := test.node
			if strings.HasPrefix(node, "metadata: {") {
				node = strings.Replace(node, "metadata: {", "metadata: {name: a, ", 1)
			} else {
				node += "\nmetadata: {name: a}"
			}

			o, err := parse(vm, "kind: Node\n"+node)
			if err != nil {
				t.Fatal(err)
			}

			shape := shapeOf(t, o)
			answer := answerFor(t, o, shape)
			if got := answer.Nodes[0]; got.Now != test.now || got.Empty != test.empty ||
				!strings.HasPrefix(got.Why, test.why) || (got.Why == "") != (test.why == "") {
				t.Errorf("%d fit now, %d when empty, why %q; want %d, %d, %q", got.Now, got.Empty,
					got.Why, test.now, test.empty, test.why)
			}
		})
	}
}

// TestLabelOfOthers: a node without a label that KubeVirt sets on others does not run virt-handler.
func TestLabelOfOthers(t *testing.T) {
	const node = "kind: Node\nmetadata: {name: %, labels: {^}}\nstatus: {allocatable: {cpu: '1'}}"
	named := func(name, label string) string {
		return strings.NewReplacer("%", name, "^", label).Replace(node)
	}

	o, err := parse("kind: VirtualMachine\nspec: {template: {spec: {domain: {resources: "+
		"{requests: {cpu: '1'}}}}}}", named("a", ""), named("b", "kubevirt.io/schedulable: 'true'"))
	if err != nil {
		t.Fatal(err)
	}

	shape := shapeOf(t, o)
	answer := answerFor(t, o, shape)
	const why = "it lacks the label kubevirt.io/schedulable=true, which KubeVirt demands"
	if answer.Now != 1 || answer.Nodes[0].Why != why {
		t.Errorf("%d fit, why not %q; want 1, %q", answer.Now, answer.Nodes[0].Why, why)
	}
}
