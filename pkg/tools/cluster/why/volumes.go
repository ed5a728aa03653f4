package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"hook-sidecar/pkg/tools/cluster/redact"
)

// What keeps the volumes of a VM that waits from being filled, bound, or reached from one node.

// dataVolume has the fields of a DataVolume that say how far it is (CDI
// staging/src/kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1/types.go).
type dataVolume struct {
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// addVolumes adds why a volume of a VM without a node is not filled or bound, and, if the
// scheduler says that volumes are on other nodes, where each is.
func (e *Evidence) addVolumes(waitsFor string) {
	if e.vm == nil && e.vmi == nil {
		return
	}

	for _, name := range e.claimNames() {
		if text := e.claimFails(name); text != "" {
			e.addFact(StageSchedule, fmt.Sprintf("the volume %s is not ready: %s", name, text))
		}
	}

	if strings.Contains(waitsFor, "volume node affinity conflict") {
		e.addPlaces()
	}
}

// isProvisioner reports whether a pod's name is that of a storage driver's provisioner.
func isProvisioner(pod object) bool {
	return hasAny(pod.Name, []string{"provisioner", "csi-controller", "csi-driver-controller"})
}

// isFailureReason reports whether the reason of a condition is that of a failure, such as Error,
// and ErrExceededQuota.
func isFailureReason(reason string) bool {
	return strings.HasPrefix(reason, "Err") || strings.Contains(reason, "Fail")
}

// place is where a claim's volume can be reached from.
type place struct {
	text  string // the claim, its volume and the nodes
	nodes []string
}

// addPlaces adds on which nodes the VM's volumes are, if some are not on all.
func (e *Evidence) addPlaces() {
	var places []place
	for _, name := range e.claimNames() {
		if p := e.placeOf(name); p != nil {
			places = append(places, *p)
		}
	}

	if len(places) == 0 {
		return
	}

	common, texts := places[0].nodes, []string{}
	for _, p := range places {
		texts = append(texts, p.text)
		isElsewhere := func(node string) bool { return !slices.Contains(p.nodes, node) }
		common = slices.DeleteFunc(slices.Clone(common), isElsewhere)
	}

	text := "the volumes are only on these nodes: " + strings.Join(texts, ", ")
	if len(common) == 0 {
		text += "; none has all of them"
	}

	for _, node := range e.nodes {
		if closed := node.closed(); slices.Contains(common, node.Name) && closed != "" {
			text += "; node " + node.Name + ": " + strings.TrimPrefix(closed, "; ")
		}
	}

	e.addFact(StageSchedule, text)
}

// claimNames returns the names of the claims of the VM's volumes, and of its DataVolumes.
func (e *Evidence) claimNames() (names []string) {
	for _, o := range []*kubeVirtState{e.vm, e.vmi} {
		if o != nil {
			names = append(names, o.VolumeNames()...)
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// placeOf returns from where the volume of a claim can be reached; nil if that is from anywhere,
// or not known.
func (e *Evidence) placeOf(name string) *place {
	claim := e.find("PersistentVolumeClaim", e.namespace(), name)
	if claim == nil {
		return nil
	}

	var bound corev1.PersistentVolumeClaim
	json.Unmarshal(claim.data, &bound)
	o := e.find("PersistentVolume", "", bound.Spec.VolumeName)
	if o == nil {
		return nil
	}

	var volume corev1.PersistentVolume
	json.Unmarshal(o.data, &volume)
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}

	values, nodes := []string{}, []string{}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, want := range term.MatchExpressions {
			values = append(values, want.Values...)
			if want.Key == corev1.LabelHostname {
				nodes = append(nodes, want.Values...)
				continue
			}

			for _, node := range e.nodes {
				if slices.Contains(want.Values, node.Labels[want.Key]) {
					nodes = append(nodes, node.Name)
				}
			}
		}
	}

	return &place{
		text:  fmt.Sprintf("claim %s (volume %s) on %s", name, volume.Name, strings.Join(values, " and ")),
		nodes: nodes,
	}
}

// restoreNotes says which restores of the VM do not complete, and why: KubeVirt does not start it
// before (KubeVirt pkg/storage/snapshot/restore.go, doUpdateError and
// handleVMRestoreTargetNotReady).
func (e *Evidence) restoreNotes() (notes []string) {
	for _, o := range e.related["VirtualMachineRestore"] {
		var r struct {
			Spec   struct{ Target struct{ Name string } }
			Status struct {
				Complete   bool
				Conditions []struct{ Type, Status, Reason string }
			}
		}
		json.Unmarshal(o.data, &r) // goes on after a field of a wrong type
		if r.Status.Complete || !e.isVM(o.Namespace, r.Spec.Target.Name) {
			continue
		}

		why := e.warningAbout("VirtualMachineRestore", o.Namespace, o.Name)
		for _, c := range r.Status.Conditions {
			if c.Type == "Failure" && c.Status == "True" {
				why = c.Reason
			}
		}

		if why != "" {
			notes = append(notes, fmt.Sprintf("its restore %s does not complete, before which KubeVirt "+
				"does not start it: %s", o.Name, quote(redact.Text(why), 0)))
		}
	}

	return notes
}

// volumeNotes says which volumes cannot be attached to the VM that runs, and why: a pod of
// KubeVirt attaches each to the node first (KubeVirt
// pkg/virt-controller/watch/vmi/volume-hotplug.go).
func (e *Evidence) volumeNotes() (notes []string) {
	for _, v := range e.vmi.volumes {
		if v.HotplugVolume == nil || v.Phase == "Ready" {
			continue
		}

		why := e.claimFails(v.Name)
		for _, pod := range e.pods {
			if pod.Name == v.HotplugVolume.AttachPodName && e.isNamespace(pod.Namespace) {
				why = cmp.Or(e.trouble(pod), why)
			}
		}

		if why != "" {
			notes = append(notes, fmt.Sprintf("the volume %s is not attached to it: %s", v.Name,
				quote(redact.Text(why), 0)))
		}
	}

	return notes
}

// claimFails returns what fails of a claim: its DataVolume, the claim itself, or else the pod that
// fills or provisions it; "" if nothing that was read does.
func (e *Evidence) claimFails(name string) string {
	v := e.find("DataVolume", e.namespace(), name)
	text, isDone := e.dataVolumeFails(v)
	if isDone {
		return ""
	}

	claim, bound := e.find("PersistentVolumeClaim", e.namespace(), name), corev1.PersistentVolumeClaim{}
	if claim != nil {
		json.Unmarshal(claim.data, &bound) // goes on after a field of a wrong type
	}

	isPending := claim != nil && bound.Status.Phase != corev1.ClaimBound
	if isPending {
		text = strings.TrimPrefix(text+"; "+e.pendingFails(claim, bound), "; ")
	}

	for _, pod := range e.pods {
		isOf := fills(pod, name, bound) || isPending && bound.Status.Phase != "" && isProvisioner(pod)
		if text == "" && isOf {
			text = e.trouble(pod)
		}
	}

	return strings.TrimSuffix(text, "; ")
}

// fills reports whether a pod fills a claim: CDI calls it after the claim, or after the UID of
// that (CDI pkg/controller/common/util.go, pkg/controller/populators).
func fills(pod object, name string, claim corev1.PersistentVolumeClaim) bool {
	isCDIs := pod.Labels["app"] == "containerized-data-importer" ||
		pod.Labels["cdi.kubevirt.io"] != "" ||
		hasAnyPrefix(pod.Name, "importer-", "cdi-upload-", "cdi-clone-")
	volume := strings.TrimPrefix(claim.Spec.VolumeName, "pvc-")
	return isCDIs && (strings.Contains(pod.Name, name) ||
		claim.UID != "" && strings.Contains(pod.Name, string(claim.UID)) ||
		volume != "" && strings.Contains(pod.Name, volume))
}

// pendingFails returns what keeps a claim from being bound, as far as it or an event says so.
func (e *Evidence) pendingFails(o *related, claim corev1.PersistentVolumeClaim) string {
	about := fmt.Sprintf("PersistentVolumeClaim %s/%s", o.Namespace, o.Name)
	warned := e.warningAbout("PersistentVolumeClaim", o.Namespace, o.Name)
	switch {
	case claim.Status.Phase == corev1.ClaimLost:
		return about + " lost its volume " + claim.Spec.VolumeName
	case warned != "":
		return fmt.Sprintf("%s is %s: %s", about, claim.Status.Phase, warned)
	}

	return ""
}

// dataVolumeFails returns what a DataVolume, or an event about it, says that fails, and whether it
// is filled.
func (e *Evidence) dataVolumeFails(o *related) (text string, isDone bool) {
	if o == nil {
		return "", false
	}

	var v dataVolume
	json.Unmarshal(o.data, &v) // goes on after a field of a wrong type
	about := fmt.Sprintf("DataVolume %s/%s is in phase %s", o.Namespace, o.Name, v.Status.Phase)
	for _, c := range v.Status.Conditions {
		if c.Status != "True" && isFailureReason(c.Reason) {
			return about + ": " + c.Reason + ": " + c.Message, false
		}
	}

	warned := e.warningAbout("DataVolume", o.Namespace, o.Name)
	switch {
	case v.Status.Phase == "Succeeded":
		return "", true
	case warned != "":
		return about + ": " + warned, false
	case v.Status.Phase == "Failed":
		return about, false
	}

	return "", false
}
