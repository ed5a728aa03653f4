package fit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/nvlink"
	"hook-sidecar/pkg/topology"
)

// Objects are objects of a cluster, by kind, and what is known of its nodes beside them.
type Objects struct {
	Nodes     []*corev1.Node
	Pods      []*corev1.Pod
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	KubeVirts []*v1.KubeVirt
	VMs       []*v1.VirtualMachine

	Only  string                    // the one node that is counted; "" for all
	Hosts map[string]*topology.Host // by node, of those that were read
	Held  map[HostDevice]string     // the running VM that has a device

	Partitions map[string]nvlink.List // by node, as Fabric Manager lists them
}

// HostDevice is a device of a node.
type HostDevice struct {
	Node   string
	Device topology.DeviceID
}

// File is a file with its name, for messages.
type File struct {
	Name string
	Data []byte
}

// Parse reads files of YAML documents and lists. An item of a list has a kind of its own or that
// of the list. Objects of other kinds are ignored, and those that were read before: a claim's
// template may be in the user's file and in the cluster. An error names the file and the object.
func Parse(files ...File) (Objects, error) {
	p := parser{seen: map[string]bool{}}
	for _, file := range files {
		if err := p.file(file.Data); err != nil {
			return p.objects, fmt.Errorf("%s: %w", file.Name, err)
		}
	}

	return p.objects, nil
}

// parser collects the objects of files.
type parser struct {
	objects Objects
	seen    map[string]bool // by kind, namespace and name
}

func (p *parser) file(data []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err == nil {
			err = p.document(document)
		}

		if err != nil {
			return err
		}
	}
}

// document reads an object or a list of objects.
func (p *parser) document(document []byte) error {
	data := bytes.TrimSpace(document)
	if !json.Valid(data) { // YAML's reader takes ten times as long for JSON
		var err error
		if data, err = yaml.YAMLToJSON(document); err != nil {
			return fmt.Errorf("parse objects: %w", err)
		}
	}

	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("parse objects: %w", err)
	}

	kind, isList := strings.CutSuffix(list.Kind, "List")
	if !isList {
		return p.object(metav1.TypeMeta{Kind: kind, APIVersion: list.APIVersion}, data)
	}

	for _, item := range list.Items {
		if err := p.object(metav1.TypeMeta{
			Kind: kind, APIVersion: list.APIVersion,
		}, item); err != nil {
			return err
		}
	}

	return nil
}

// object reads one object. Its list gives it kind and version, unless it has its own.
func (p *parser) object(inherited metav1.TypeMeta, data []byte) error {
	head := metav1.PartialObjectMetadata{TypeMeta: inherited}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("parse objects: %w", err)
	}

	name := strings.TrimPrefix(head.Namespace+"/"+head.Name, "/")
	isDRA := strings.HasPrefix(head.APIVersion, resourceapi.GroupName+"/")
	if isDRA && head.APIVersion != resourceapi.SchemeGroupVersion.String() {
		return fmt.Errorf("%s %s is of %s, must be of %s", head.Kind, name, head.APIVersion,
			resourceapi.SchemeGroupVersion)
	}

	key := head.Kind + " " + name
	if head.Name != "" && p.seen[key] {
		return nil
	}

	p.seen[key] = true
	if err := p.objects.add(head.Kind, data); err != nil {
		return fmt.Errorf("parse %s: %w", key, err)
	}

	return nil
}

// add decodes an object into the list of its kind.
func (o *Objects) add(kind string, data []byte) error {
	switch kind {
	case "Node":
		return decode(&o.Nodes, data)
	case "Pod":
		return decode(&o.Pods, data)
	case "ResourceSlice":
		return decode(&o.Slices, data)
	case "DeviceClass":
		return decode(&o.Classes, data)
	case "ResourceClaim":
		return decode(&o.Claims, data)
	case "ResourceClaimTemplate":
		return decode(&o.Templates, data)
	case "KubeVirt":
		return decode(&o.KubeVirts, data)
	case "VirtualMachine":
		return decode(&o.VMs, data)
	}

	return nil
}

func decode[T any](to *[]*T, data []byte) error {
	object := new(T)
	err := json.Unmarshal(data, object)
	*to = append(*to, object)
	return err
}

// template returns the template of a name for a VM of a namespace, nil without one. Objects of a
// file may have no namespace.
func (o *Objects) template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	for _, t := range o.Templates {
		if t.Name == name && cmp.Or(t.Namespace, namespace) == cmp.Or(namespace, t.Namespace) {
			return t
		}
	}
	return nil
}
