package why

import (
	"encoding/json"
	"fmt"
	"maps"
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
			Status struct {
				Phase      string
				Conditions []struct{ Type, Status string }
			}
		}
		json.Unmarshal(o.data, &migration) // goes on after a field of a wrong type
		isOver := slices.Contains([]string{"Succeeded", "Failed"}, migration.Status.Phase)
		if isOver || !e.isVM(o.Namespace, migration.Spec.VMIName) {
			continue
		}

		for _, c := range migration.Status.Conditions {
			if c.Type == string(v1.VirtualMachineInstanceMigrationRejectedByResourceQuota) &&
				c.Status == "True" {
				e.addFact(StageMigrate, fmt.Sprintf("the namespace's quota refuses the pod for the "+
					"target of migration %s%s", o.Name, e.exceeded(o.Namespace)))
			}
		}

		warned := e.warningAbout("VirtualMachineInstanceMigration", o.Namespace, o.Name)
		if warned != "" {
			e.add(message{
				source: "event of VirtualMachineInstanceMigration " + o.Name, stage: StageMigrate,
				isError: true, isState: true, text: warned,
			})
		}
	}
}

// quotaState has the fields of a ResourceQuota that say what is left (Kubernetes
// staging/src/k8s.io/api/core/v1/types.go).
type quotaState struct {
	Status struct{ Hard, Used corev1.ResourceList }
}

// exceeded returns what the quotas of a namespace have too little of for another pod like the
// VM's; "" if that was not read.
func (e *Evidence) exceeded(namespace string) (text string) {
	wanted := e.requests()
	for _, o := range e.related["ResourceQuota"] {
		var q quotaState
		json.Unmarshal(o.data, &q) // goes on after a field of a wrong type
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			most, used := q.Status.Hard[name], q.Status.Used[name]
			more := wanted[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
			sum := used.DeepCopy()
			sum.Add(more)
			if o.Namespace == namespace && !more.IsZero() && sum.Cmp(most) > 0 {
				text += fmt.Sprintf("; ResourceQuota %s: %s of %s of %s are used, and %s more is "+
					"asked for", o.Name, used.String(), most.String(), name, more.String())
			}
		}
	}

	return text
}

// requests returns what the VM's pod requests.
func (e *Evidence) requests() corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range e.pods {
		if !e.isOwn("Pod", pod.Namespace, pod.Name) || pod.isEnded() || len(sum) > 0 {
			continue
		}
		for _, c := range pod.Spec.Containers {
			for name, more := range c.Resources.Requests {
				has := sum[name]
				has.Add(more)
				sum[name] = has
			}
		}
	}

	return sum
}

// isOfTarget reports whether an entry is about a pod for a migration's target, which waits, or
// which cannot be made: that of a VM that runs is there.
func (e *Evidence) isOfTarget(n entry) bool {
	isRunning := e.Phase == string(v1.Running)
	if isRunning && strings.HasPrefix(n.source, "event FailedCreate of VirtualMachineInstance ") {
		return slices.ContainsFunc(e.pods, func(pod object) bool {
			return e.isOwn("Pod", pod.Namespace, pod.Name) && pod.Spec.NodeName == e.Node &&
				!pod.isEnded() && pod.CreationTimestamp.Time.Before(n.at)
		})
	}

	_, name, isOfPod := strings.Cut(n.source, " of Pod ")
	return isOfPod && slices.ContainsFunc(e.pods, func(pod object) bool {
		return pod.Name == name && pod.Labels[v1.MigrationJobLabel] != "" &&
			pod.Status.Phase == corev1.PodPending
	})
}
