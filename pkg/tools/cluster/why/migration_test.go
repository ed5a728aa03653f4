package why

import (
	"testing"

	"hook-sidecar/test/expect"
)

// TestMigration: of a VM that runs, what keeps it from another node is named, until it got there or
// was started anew.
func TestMigration(t *testing.T) {
	const (
		assigned = "VirtualMachineInstance migration uid 7f failed. reason:Live migration " +
			"failed error encountered during MigrateToURI3 libvirt api call: virError(Code=84, " +
			"Domain=10, Message='Operation not supported: cannot migrate a domain with <hostdev " +
			"mode='subsystem' type='pci'>')"
		noGPU = "0/2 nodes are available: 2 Insufficient nvidia.com/GH100."
	)

	running := func(migrationState string) string {
		return "kind: VirtualMachineInstance\nmetadata: {name: vm, namespace: ml}\n" +
			"status: {phase: Running, nodeName: gpu-1, migrationState: {sourceNode: gpu-1, " +
			"targetNode: gpu-2, completed: true, " +
			migrationState + "}}\n"
	}

	failed := func(reason string) string {
		return running("failed: true, endTimestamp: '2026-11-22T10:00:00Z', " +
			"failureReason: \"" + reason + "\"")
	}

	target := func(labels string) string {
		return "kind: Pod\nmetadata: {name: virt-launcher-vm-x7k2p, namespace: ml, labels: {" + labels +
			"}}\nstatus: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', " +
			"reason: Unschedulable, message: '" +
			noGPU + "'}]}\n"
	}

	const note = "its migration from node gpu-1 to gpu-2 failed: "
	for name, tt := range map[string]struct {
		texts  []string
		causes string
		notes  []string
	}{
		"the VMI says why": {
			[]string{failed("cannot migrate a domain with assigned devices")}, "not-migratable",
			[]string{note + "cannot migrate a domain with assigned devices"},
		},
		"for an unknown reason": {
			[]string{failed("Target pod is down")}, "", []string{note + "Target pod is down"},
		},
		"the target lacks what a start takes": {
			[]string{failed("guest CPU doesn't match specification: missing features: pcid")},
			"cpu-features",
			[]string{note + "guest CPU doesn't match specification: missing features: pcid"},
		},
		"an event says why": {
			[]string{running(""), event(vmi, "Migrated", "10:00:00", assigned)}, "not-migratable", nil,
		},
		"it has migrated since": {
			[]string{
				running("endTimestamp: '2026-11-22T10:05:00Z'"),
				event(vmi, "Migrated", "10:00:00", assigned),
			}, "", nil,
		},
		"it was started since": {
			[]string{
				running(""), event(vmi, "Migrated", "10:00:00", assigned),
				event(vmi, "SuccessfulCreate", "10:05:00", "Created virtual machine pod"),
			}, "", nil,
		},
		"no node for its target": {
			[]string{running(""), target("kubevirt.io/migrationJobUID: j")}, "no-node", nil,
		},
		"no migration": {[]string{running(""), target("")}, "", nil},
		"the guest comes first": {
			[]string{failed("cannot migrate a domain with assigned devices"),
				"NVRM: Xid (PCI:0000:09:00): 79, GPU has fallen off the bus."},
			"gpu-lost not-migratable",
			[]string{note + "cannot migrate a domain with assigned devices"},
		},
	} {
		r := evidence(tt.texts...).Diagnose()
		if r.State.Name != "running" || !r.Runs() || causes(r.Causes) != tt.causes {
			t.Errorf("%s: %s, causes %q, want %q", name, r.State.Text, causes(r.Causes), tt.causes)
		}

		for _, f := range r.Causes {
			if f.Stage != StageMigrate && f.Stage != StageGuest {
				t.Errorf("%s: %s is of stage %s", name, f.Name, f.Stage)
			}
		}

		expect.Same(t, append([]string{}, tt.notes...), r.State.Notes, "%s: notes (-want +got)", name)
	}
}
