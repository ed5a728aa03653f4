package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// addVolumes adds why a volume of a VM without a node is not filled or bound, and, if the scheduler
// says that volumes are on other nodes, where each is.
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

// claimFails returns what fails of a claim: its DataVolume, the pod that fills it, or the claim
// itself; "" if nothing that was read does.
func (e *Evidence) claimFails(name string) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	namespace := e.namespace()
	claim := e.find("PersistentVolumeClaim", namespace, name)
	var bound corev1.PersistentVolumeClaim
	if claim != nil {
		json.Unmarshal(claim.data, &bound) // goes on after a field of a wrong type
	}

	if o := e.find("DataVolume", namespace, name); o != nil {
		var v dataVolume
		json.Unmarshal(o.data, &v)
		if v.Status.Phase == "Succeeded" {
			return ""
		}

		for _, c := range v.Status.Conditions {
			if c.Status != "True" && isFailureReason(c.Reason) {
				say("DataVolume %s/%s is in phase %s: %s: %s", o.Namespace, name, v.Status.Phase,
					c.Reason, c.Message)
			}
		}

		if warned := e.warningAbout("DataVolume", o.Namespace, name); warned != "" && len(said) == 0 {
			say("DataVolume %s/%s is in phase %s: %s", o.Namespace, name, v.Status.Phase, warned)
		}
		if v.Status.Phase == "Failed" && len(said) == 0 {
			say("DataVolume %s/%s is in phase Failed", o.Namespace, name)
		}
	}

	if claim != nil && bound.Status.Phase != corev1.ClaimBound {
		warned := e.warningAbout("PersistentVolumeClaim", claim.Namespace, name)
		if bound.Status.Phase == corev1.ClaimLost {
			say("PersistentVolumeClaim %s/%s lost its volume %s", claim.Namespace, name,
				bound.Spec.VolumeName)
		} else if warned != "" {
			say("PersistentVolumeClaim %s/%s is %s: %s", claim.Namespace, name, bound.Status.Phase, warned)
		}
	}

	for _, pod := range e.pods {
		if text := e.trouble(pod); text != "" && fills(pod, name, bound) && len(said) == 0 {
			say("%s", text)
		}
	}

	return strings.Join(said, "; ")
}

// isFailureReason reports whether the reason of a condition is that of a failure, such as Error,
// and ErrExceededQuota.
func isFailureReason(reason string) bool {
	return strings.HasPrefix(reason, "Err") || strings.Contains(reason, "Fail")
}

// fills reports whether a pod fills a claim: CDI calls it after the claim, or after the UID of that
// (CDI pkg/controller/common/util.go, pkg/controller/populators).
func fills(pod object, name string, claim corev1.PersistentVolumeClaim) bool {
	isCDIs := pod.Labels["app"] == "containerized-data-importer" ||
		pod.Labels["cdi.kubevirt.io"] != "" ||
		hasAnyPrefix(pod.Name, "importer-", "cdi-upload-", "cdi-clone-")
	volume := strings.TrimPrefix(claim.Spec.VolumeName, "pvc-")
	return isCDIs && (strings.Contains(pod.Name, name) ||
		claim.UID != "" && strings.Contains(pod.Name, string(claim.UID)) ||
		volume != "" && strings.Contains(pod.Name, volume))
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

// placeOf returns from where the volume of a claim can be reached; nil if that is from anywhere, or
// not known.
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
