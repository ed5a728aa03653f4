package kubevirt

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
)

// Run says where a VMI runs. Placement does not need it, so that ParseVMI reads a VMI in which a
// later KubeVirt has changed the type of such a field.
type Run struct {
	Labels map[string]string
	Phase  string // "" where it is not known
	Node   string
	Target string // the node that it is migrating to, "" where it is not
	IsRoot bool   // virt-launcher's libvirt runs as root
}

// ParseRun reads the name of a VMI and where it runs, from the JSON that ParseVMI reads. With an
// error they are there as far as they could be read, since one VMI of a list must not hide the
// others.
func ParseRun(data []byte) (types.NamespacedName, Run, error) {
	var doc struct {
		Metadata struct {
			Namespace, Name string
			Labels          map[string]string
		}
		Status struct {
			Phase, NodeName string
			RuntimeUser     uint64 // 0 is root
			MigrationState  *migrationState
		}
	}

	err := json.Unmarshal(data, &doc) // goes on after a field of a wrong type
	name := types.NamespacedName{Namespace: doc.Metadata.Namespace, Name: doc.Metadata.Name}
	run := Run{
		Labels: doc.Metadata.Labels, Phase: doc.Status.Phase, Node: doc.Status.NodeName,
		IsRoot: doc.Status.RuntimeUser == 0,
	}

	if migration := doc.Status.MigrationState; migration.isInProgress() {
		run.Target = migration.TargetNode
	}

	return name, run, err
}
