package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/topology"
)

// Objects are objects of a cluster, or of files.
type Objects struct {
	Nodes     []*corev1.Node
	Pods      []*corev1.Pod
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	VMs       []*v1.VirtualMachine
	KubeVirts []*v1.KubeVirt
	Hosts     map[string]*topology.Host // by node, of those that were read
}

// Add adds the objects of YAML documents, as kubectl get -o yaml prints them. Objects of
// other kinds are ignored.
func (o *Objects) Add(data []byte) error {
	for _, document := range bytes.Split(append([]byte("\n"), data...), []byte("\n---")) {
		object, err := yaml.YAMLToJSON(document)
		if err == nil {
			err = o.add(object, metav1.TypeMeta{})
		}
		if err != nil {
			return fmt.Errorf("parse objects: %w", err)
		}
	}
	return nil
}

// add adds an object of the type, unless it names another, or the items of a list.
func (o *Objects) add(data []byte, of metav1.TypeMeta) error {
	head := struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}{TypeMeta: of}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	of = metav1.TypeMeta{APIVersion: head.APIVersion, Kind: strings.TrimSuffix(head.Kind, "List")}
	for _, item := range head.Items {
		if err := o.add(item, of); err != nil {
			return err
		}
	}
	gv := head.GroupVersionKind().GroupVersion()
	if gv.Group == resourceapi.GroupName && gv.Version != resourceapi.SchemeGroupVersion.Version {
		return fmt.Errorf("%s is of %s, must be of %s", head.Kind, gv, resourceapi.SchemeGroupVersion)
	}
	switch head.Kind {
	case "Node":
		return added(&o.Nodes, data)
	case "Pod":
		return added(&o.Pods, data)
	case "ResourceSlice":
		return added(&o.Slices, data)
	case "DeviceClass":
		return added(&o.Classes, data)
	case "ResourceClaim":
		return added(&o.Claims, data)
	case "ResourceClaimTemplate":
		return added(&o.Templates, data)
	case "KubeVirt":
		return added(&o.KubeVirts, data)
	case "VirtualMachine":
		return added(&o.VMs, data)
	case "VirtualMachineInstance":
		vmi := v1.VirtualMachineInstance{}
		err := json.Unmarshal(data, &vmi)
		template := &v1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}
		o.VMs = append(o.VMs, &v1.VirtualMachine{ObjectMeta: vmi.ObjectMeta, Spec: v1.VirtualMachineSpec{Template: template}})
		return err
	}
	return nil
}

func added[T any](list *[]*T, data []byte) error {
	object := new(T)
	*list = append(*list, object)
	return json.Unmarshal(data, object)
}
