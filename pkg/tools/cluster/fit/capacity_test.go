package fit

import (
	"strings"
	"testing"

	"hook-sidecar/test/expect"
	"hook-sidecar/test/fleet"
)

// shared is a node with eight virtual functions, each published for containers and for VMs, and with
// the CPUs and the memory of two sockets, of which a claim takes as much as it asks for.
const shared = `kind: Node
metadata: {name: a}
---
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
kind: DeviceClass
metadata: {name: cpu}
spec: {selectors: [{cel: {expression: 'device.driver == "dra.cpu"'}}]}
---
kind: DeviceClass
metadata: {name: memory}
spec: {selectors: [{cel: {expression: 'device.driver == "dra.memory"'}}]}
---
kind: ResourceSlice
metadata: {name: cpus}
spec:
  driver: dra.cpu
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - name: socket-0
    allowMultipleAllocations: true
    attributes: {numaNodeID: {int: 0}, dra.net/numaNode: {int: 0}}
    capacity: {dra.cpu/cpu: {value: "64", requestPolicy: {default: "1", validRange: {min: "1", step: "1"}}}}
  - name: socket-1
    allowMultipleAllocations: true
    attributes: {numaNodeID: {int: 1}, dra.net/numaNode: {int: 1}}
    capacity: {dra.cpu/cpu: {value: "64", requestPolicy: {default: "1", validRange: {min: "1", step: "1"}}}}
---
kind: ResourceSlice
metadata: {name: memory}
spec:
  driver: dra.memory
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: node-0, allowMultipleAllocations: true, attributes: {numaNode: {int: 0}}, capacity: {size: {value: 1Ti}}}
  - {name: node-1, allowMultipleAllocations: true, attributes: {numaNode: {int: 1}}, capacity: {size: {value: 1Ti}}}
---
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices:
GPUS`

// sharedNode returns the objects of shared, whose GPUs have these fields.
func sharedNode(t *testing.T, fields string, more ...string) Objects {
	t.Helper()
	gpus := ""
	for _, bus := range []string{"1b", "3d", "4e", "5f", "9d", "bd", "cd", "dd"} {
		for _, kind := range []string{"container", "vm"} {
			gpus += "  - {name: " + kind + "-" + bus + ", attributes: {type: {string: " + kind +
				"}, resource.kubernetes.io/pciBusID: {string: '0000:" + bus + ":02.0'}}" + fields +
				"}\n"
		}
	}

	o, err := parse(append(more, strings.ReplaceAll(shared, "GPUS", gpus))...)
	expect.NoError(t, err)
	return o
}

// claimOf returns a VM and the template of its claim.
func claimOf(requests string) string {
	return `kind: VirtualMachine
metadata: {name: vm}
spec: {template: {spec: {resourceClaims: [{name: d, resourceClaimTemplateName: t}]}}}
---
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {spec: {devices: {requests: [` + requests + `]}}}
`
}

// TestCapacity counts VMs that take a part of a device, which others share.
func TestCapacity(t *testing.T) {
	const (
		gpu = `{name: gpu, exactly: {deviceClassName: gpu, selectors: [{cel: {expression: ` +
			`'device.attributes["gpu.example.com"].type == "vm"'}}]}}`
		cpus = `{name: cpu, exactly: {deviceClassName: cpu, capacity: {requests: {dra.cpu/cpu: "%"}}}}`
		size = `{name: memory, exactly: {deviceClassName: memory, capacity: {requests: {size: %}}}}`

		used = `kind: ResourceClaim
metadata: {name: u, namespace: ml}
status: {allocation: {devices: {results: [{request: r, driver: dra.cpu, pool: a, device: socket-0,
  shareID: 0f0e0d0c-0000-4000-8000-000000000001, consumedCapacity: {dra.cpu/cpu: "60"}}]}}}
`
	)

	of := func(request, amount string) string { return strings.ReplaceAll(request, "%", amount) }
	for _, test := range []struct {
		name       string
		requests   []string
		now, empty int
		why        string
	}{
		{"GPUs end first", []string{gpu, of(cpus, "4"), of(size, "2Gi")}, 8, 8, ""},
		{"CPUs end first", []string{gpu, of(cpus, "32")}, 2, 4, ""},
		{"memory ends first", []string{gpu, of(size, "500Gi")}, 4, 4, ""},
		{"more than a socket", []string{gpu, of(cpus, "65")}, 0, 0,
			"0 of 2 cpu are free, 1 needed; 2 not counted: less than 65 of dra.cpu/cpu left"},
		{"another capacity", []string{strings.ReplaceAll(of(cpus, "1"), "dra.cpu/cpu", "cores")}, 0, 0,
			"0 of 2 cpu are free, 1 needed; 2 not counted: no capacity cores"},
		{"one CPU each by default", []string{`{name: cpu, exactly: {deviceClassName: cpu}}`}, 68, 128,
			""},
		{"all memory by default", []string{`{name: memory, exactly: {deviceClassName: memory}}`}, 2, 2,
			""},
		{"both sockets", []string{`{name: cpu, exactly: {deviceClassName: cpu, count: 2, ` +
			`capacity: {requests: {dra.cpu/cpu: "30"}}}}`}, 0, 2,
			"1 of 2 cpu are free, 2 needed; 1 not counted: less than 30 of dra.cpu/cpu left"},
		{"alternatives", []string{`{name: cpu, firstAvailable: [{name: many, deviceClassName: cpu, ` +
			`capacity: {requests: {dra.cpu/cpu: "64"}}}, {name: few, deviceClassName: cpu, ` +
			`capacity: {requests: {dra.cpu/cpu: "2"}}}]}`}, 3, 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := sharedNode(t, "", claimOf(strings.Join(test.requests, ", ")), used)
			answer := answerFor(t, o, shapeOf(t, o))
			n := answer.Nodes[0]
			if n.Now != test.now || n.Empty != test.empty || n.Why != test.why {
				t.Errorf("%d fit now, %d when empty, why %q; want %d, %d, %q", n.Now, n.Empty,
					n.Why, test.now, test.empty, test.why)
			}

			if len(n.Devices) != 16 {
				t.Errorf("%d devices, want the GPUs alone, 16", len(n.Devices))
			}
		})
	}
}

// TestOneFunction: a function that is published as several devices is given once, unless its driver
// tells them apart by counters.
func TestOneFunction(t *testing.T) {
	const (
		one  = `{name: a, exactly: {deviceClassName: gpu}}`
		nine = `{name: a, exactly: {deviceClassName: gpu, count: 9}}`

		used = `kind: ResourceClaim
metadata: {name: u, namespace: ml}
status: {allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: a, device: container-1b}]}}}
`
		counter = ", consumesCounters: [{counterSet: none, counters: {}}]"
	)

	// The second request takes the device of the first's function, unless that takes another.
	last := `{name: a, exactly: {deviceClassName: gpu, count: 7}}, {name: b, exactly: {deviceClassName: ` +
		`gpu, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].type == "vm"'}}]}}`
	for _, test := range []struct {
		name, fields, requests string
		now, empty             int
		why                    string
	}{
		{"one", "", one, 7, 8, ""},
		{"more than there are", "", nine, 0, 0,
			"8 of 8 gpu are free, 9 needed; the 16 devices are 8 functions"},
		{"all", "", `{name: a, exactly: {deviceClassName: gpu, allocationMode: All}}`, 0, 0,
			"8 of 16 gpu are free, and the request is for all; the 16 devices are 8 functions"},
		{"several requests", "", last, 0, 1, "no free devices"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := sharedNode(t, test.fields, claimOf(test.requests), used)
			n := answerFor(t, o, shapeOf(t, o)).Nodes[0]
			if n.Now != test.now || n.Empty != test.empty || !strings.Contains(n.Why, test.why) {
				t.Errorf("%d fit now, %d when empty, why %q; want %d, %d, %q", n.Now, n.Empty, n.Why,
					test.now, test.empty, test.why)
			}

			got := n.Devices[0].State + " by " + n.Devices[0].By + "; " + n.Devices[1].State +
				" by " + n.Devices[1].By + "; " + n.Devices[3].By
			if want := "used by ml/u; used by ml/u; the same function as container-3d"; got != want {
				t.Errorf("devices: %s, want %s", got, want)
			}
		})
	}

	o := sharedNode(t, counter, claimOf(one))
	if twins := New(o).node(o.Nodes[0]).twins; len(twins) > 0 {
		t.Errorf("devices with counters are one function: %v", twins)
	}
}

// TestTolerations: of two requests for devices of one kind only one tolerates a taint.
func TestTolerations(t *testing.T) {
	o := sharedNode(t, ", taints: [{key: bad, effect: NoSchedule}]", claimOf(
		`{name: a, exactly: {deviceClassName: gpu}}, {name: b, exactly: {deviceClassName: gpu, `+
			`tolerations: [{key: bad, operator: Exists}]}}`))
	gpus := o.Slices[2].Spec.Devices
	gpus[3].Taints, gpus[5].Taints = nil, nil

	if n := answerFor(t, o, shapeOf(t, o)).Nodes[0]; n.Now != 2 {
		t.Errorf("%d fit, want 2: %s", n.Now, n.Why)
	}
}

// TestTaintRules: a rule taints the devices that it selects.
func TestTaintRules(t *testing.T) {
	const rule = "kind: DeviceTaintRule\napiVersion: resource.k8s.io/v1beta2\nmetadata: {name: r}\n" +
		"spec: {deviceSelector: {driver: gpu.example.com, device: vm-1b}, " +
		"taint: {key: bad, effect: NoExecute}}"
	o := sharedNode(t, "", rule, claimOf(`{name: a, exactly: {deviceClassName: gpu, selectors: [{cel: `+
		`{expression: 'device.attributes["gpu.example.com"].type == "vm"'}}]}}`))
	if n := answerFor(t, o, shapeOf(t, o)).Nodes[0]; n.Now != 7 {
		t.Errorf("%d fit, want 7: %s", n.Now, n.Why)
	}
}

// TestVersion: the cluster's version decides as which the allocator acts, and a claim that needs
// more is counted with a note.
func TestVersion(t *testing.T) {
	const (
		capacity = `{name: cpu, exactly: {deviceClassName: cpu, capacity: {requests: {dra.cpu/cpu: "1"}}}}`
		derived  = `{name: a, exactly: {deviceClassName: gpu, derivedAttributes: [{name: x.io/a, ` +
			`expression: '"1"'}]}}`
		kubelet = "kind: Node\nmetadata: {name: b}\nstatus: {nodeInfo: {kubeletVersion: v1.35.4-gke.1}}"
	)

	for _, test := range []struct {
		server, node, claim string
		assumed             int
		want, note          string
	}{
		{"", "", capacity, 0, "1.37: the newest that fit knows", ""},
		{"", "", capacity, 36, "1.36: --kubernetes", ""},
		{"", kubelet, capacity, 36, "1.35: the kubelets' version", ""}, // its slices have capacities
		{"v1.38.0", kubelet, capacity, 36, "1.37, for 1.38: the API server's version", ""},
		{"v1.36.1+k3s1", "", derived, 0, "1.36: the API server's version",
			"counted as with feature gate DRADerivedAttributes, which Kubernetes 1.36 has off by default"},
	} {
		texts := []string{claimOf(test.claim)}
		if test.node != "" {
			texts = append(texts, test.node)
		}

		o := sharedNode(t, "", texts...)
		o.ServerVersion, o.AssumedMinor = test.server, test.assumed
		answer := answerFor(t, o, shapeOf(t, o))
		if notes := strings.Join(answer.Notes, "\n"); answer.Kubernetes != test.want ||
			!strings.HasPrefix(notes, test.note) || (notes == "") != (test.note == "") {
			t.Errorf("as Kubernetes %q, notes %q; want %q, %q", answer.Kubernetes, notes, test.want,
				test.note)
		}
	}
}

// TestNamedClaim: one VM at a time has a claim that it names.
func TestNamedClaim(t *testing.T) {
	const (
		vmi = "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"spec: {resourceClaims: [{name: d, resourceClaimName: c}]}"
		claim = "kind: ResourceClaim\nmetadata: {name: c, namespace: ml}\nspec: {devices: {requests: " +
			"[{name: gpu, exactly: {deviceClassName: gpu}}]}}\n"
		allocated = "status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: " +
			"metadata.name, operator: In, values: [%]}]}]}, devices: {results: [{request: gpu, " +
			"driver: gpu.example.com, pool: a, device: vm-1b}]}}^}"
	)

	status := func(node, reserved string) string {
		return strings.NewReplacer("%", node, "^", reserved).Replace(allocated)
	}
	for _, test := range []struct {
		name, status string
		now          int
		why          string
	}{
		{"not allocated", "", 1, ""},
		{"allocated", status("a", ""), 1, ""},
		{"allocated elsewhere", status("b", ""), 0, "claim c has devices of another node"},
		{"reserved", status("a", ", reservedFor: [{resource: pods, name: p, uid: x}]"), 0,
			"claim c is reserved for pods p"},
	} {
		o := sharedNode(t, "", vmi, claim+test.status)
		answer := answerFor(t, o, shapeOf(t, o))
		if answer.Now != test.now || answer.Empty != 1 || answer.Nodes[0].Why != test.why {
			t.Errorf("%s: %d fit now, %d when empty, why %q; want %d, 1, %q", test.name, answer.Now,
				answer.Empty, answer.Nodes[0].Why, test.now, test.why)
		}
	}
}

// TestWrittenClaimOfVersions: a claim that is written for GPUs and NICs is allocated as often by each
// version of Kubernetes.
func TestWrittenClaimOfVersions(t *testing.T) {
	o := objects(t, "x86-2n8g-hgx-h100", fleet.NVIDIA(), fleet.SRIOV())
	wish := Wish{GPUs: 2, NICs: 2, GPUClass: fleet.NVIDIA().Class, NICClass: fleet.SRIOV().Class, Pair: true}
	_, claim, err := wish.Count(t.Context(), New(o))
	expect.NoError(t, err)
	if !strings.Contains(claim, "# Checked as Kubernetes 1.34 to 1.37 allocate") ||
		strings.Contains(claim, "# Kubernetes 1.") {
		t.Errorf("claim:\n%s", claim)
	}
}
