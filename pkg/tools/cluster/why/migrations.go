package why

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
)

// addMigrations adds what events warn about a migration of the VM that goes on: KubeVirt tells the
// migration why it makes no pod for the target (KubeVirt pkg/virt-controller/watch/migration).
func (e *Evidence) addMigrations() {
	for _, o := range e.related["VirtualMachineInstanceMigration"] {
		var migration struct {
			Spec   struct{ VMIName string }
			Status struct{ Phase string }
		}
		json.Unmarshal(o.data, &migration) // goes on after a field of a wrong type
		isOver := slices.Contains([]string{"Succeeded", "Failed"}, migration.Status.Phase)
		warned := e.warningAbout("VirtualMachineInstanceMigration", o.Namespace, o.Name)
		if warned != "" && !isOver && e.isVM(o.Namespace, migration.Spec.VMIName) {
			e.add(message{
				source: "event of VirtualMachineInstanceMigration " + o.Name, stage: StageMigrate,
				isError: true, isState: true, text: warned,
			})
		}
	}
}

// isOfTarget reports whether an entry is about a pod for a migration's target, which waits.
func (e *Evidence) isOfTarget(n entry) bool {
	_, name, isOfPod := strings.Cut(n.source, " of Pod ")
	return isOfPod && slices.ContainsFunc(e.pods, func(pod object) bool {
		return pod.Name == name && pod.Labels[v1.MigrationJobLabel] != "" &&
			pod.Status.Phase == corev1.PodPending
	})
}
