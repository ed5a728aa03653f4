package fit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podrequests "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"hook-sidecar/pkg/policy"
	"hook-sidecar/pkg/tools/cluster/archive"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/topology/nvlink"
	"hook-sidecar/pkg/words"
	"hook-sidecar/pkg/words/lazyregexp"
)

// Objects are objects of a cluster, by kind, and what is known of its nodes beside them.
type Objects struct {
	Nodes     []*corev1.Node
	Pods      []*Pod // without those that have ended
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	KubeVirts []*v1.KubeVirt
	VMs       []*v1.VirtualMachine
	VMIs      []*v1.VirtualMachineInstance

	TaintRules []*resourceapi.DeviceTaintRule

	Only  string                    // the one node that is counted; "" for all
	Hosts map[string]*topology.Host // by node, of those that were read
	Held  map[HostDevice]string     // the running VM that has a device

	Partitions map[string]nvlink.List // by node, as Fabric Manager lists them

	ServerVersion string // of the cluster's API server, such as v1.36.2; "" where it is not known
	AssumedMinor  int    // of Kubernetes 1, where no object tells the version; 0 for Latest

	ignored map[string]int // objects of other kinds, by kind
	notes   []string       // which objects do not count
}

// Pod is a pod and what it requests of its node.
type Pod struct {
	Namespace, Name, Node string
	Requests              corev1.ResourceList
}

// HostDevice is a device of a node.
type HostDevice struct {
	Node   string
	Device topology.DeviceID
}

// PartitionsAnnotation is the annotation of a node with its NVLink partitions, as fmpm -l prints
// them. It lasts, so what it says of active ones does not count.
const PartitionsAnnotation = policy.AnnotationPrefix + "nvlink-partitions"

// File is a file with its name, for messages.
type File struct {
	Name string
	Data []byte
}

// Parse reads files of objects and lists, in YAML or JSON. An item of a list has a kind of its own
// or that of the list. Objects of other kinds are ignored, and those that were read before: a
// claim's template may be in the user's file and in the cluster. Of each object only the fields are
// kept that decide what fits. An error names the file and the object.
func Parse(files ...File) (Objects, error) { return ParseBeside(nil, files...) }

// ParseBeside reads files as Parse does, beside claims that were read.
func ParseBeside(claims []*resourceapi.ResourceClaim, files ...File) (Objects, error) {
	p := parser{
		seen: map[string]bool{}, objects: Objects{Claims: claims, ignored: map[string]int{}},
	}
	for _, file := range files {
		p.name = file.Name
		if err := p.file(file.Data); err != nil {
			return p.objects, fmt.Errorf("%s: %w", file.Name, err)
		}
	}

	return p.objects, p.addSlices()
}

// parser collects the objects of files.
type parser struct {
	objects Objects
	seen    map[string]bool // by kind, namespace and name
	name    string          // of the file
	slices  []unparsed      // which are most of a cluster
}

// unparsed is an object as its file has it.
type unparsed struct {
	file, key string
	data      []byte
}

// addSlices parses the slices, after the objects that say which attributes count. Devices that are
// the same on several nodes are kept once.
func (p *parser) addSlices() error {
	counts := p.objects.attributesThatCount()
	known := map[string][]resourceapi.Device{}
	for _, u := range p.slices {
		s := &resourceapi.ResourceSlice{}
		if err := json.Unmarshal(u.data, s); err != nil {
			return fmt.Errorf("%s: parse %s: %w", u.file, u.key, err)
		}

		for _, d := range s.Spec.Devices {
			maps.DeleteFunc(d.Attributes, func(
				name resourceapi.QualifiedName, _ resourceapi.DeviceAttribute,
			) bool {
				return !counts(string(name))
			})
		}

		devices, err := json.Marshal(s.Spec.Devices)
		if err != nil {
			return fmt.Errorf("%s: parse %s: %w", u.file, u.key, err)
		}

		if known[string(devices)] == nil {
			known[string(devices)] = s.Spec.Devices
		}

		kept := &resourceapi.ResourceSlice{Spec: s.Spec}
		kept.Name, kept.Spec.Devices = s.Name, known[string(devices)]
		p.objects.Slices = append(p.objects.Slices, kept)
	}

	return nil
}

// attributesThatCount returns which attributes of devices may decide what a VM gets, or how near:
// those that fit reads itself, and those that are named in an expression or a constraint. An
// expression may also ask for all that there are.
func (o *Objects) attributesThatCount() func(name string) bool {
	var texts strings.Builder
	add := func(spec resourceapi.DeviceClaim) {
		for _, r := range spec.Requests {
			for _, a := range alternatives(r) {
				addExpressions(&texts, a.Selectors)
				for _, d := range a.DerivedAttributes {
					texts.WriteString(d.Expression + "\n")
				}
			}
		}

		for _, c := range spec.Constraints {
			texts.WriteString(string(ptr.Deref(c.MatchAttribute, "")) + "\n" +
				string(ptr.Deref(c.DistinctAttribute, "")) + "\n")
		}
	}

	for _, c := range o.Classes {
		addExpressions(&texts, c.Spec.Selectors)
	}
	for _, t := range o.Templates {
		add(t.Spec.Spec.Devices)
	}
	for _, c := range o.Claims {
		add(c.Spec.Devices)
	}

	text := texts.String()
	asksForAll := asksForAttributes.MatchString(text)
	return func(name string) bool {
		id := name[strings.LastIndex(name, "/")+1:]
		return asksForAll || readsAttribute(id) || strings.Contains(text, id)
	}
}

// asksForAttributes matches an expression in which no attribute need be named: a macro over all, or
// a name that is composed.
var asksForAttributes = lazyregexp.New(
	`\.(?:all|exists|exists_one|existsOne|filter|map|transform\w+)\(|" *\+|\+ *"|\\[xuUX0-7]`)

// readsAttribute reports whether fit reads an attribute whatever the claim.
func readsAttribute(id string) bool {
	return meaning(id) != isOther || strings.HasPrefix(id, "partition") || slices.Contains([]string{
		"gpuModuleID", "vendorID", "deviceID", "productName",
	}, id)
}

func addExpressions(to *strings.Builder, selectors []resourceapi.DeviceSelector) {
	for _, s := range selectors {
		to.WriteString(ptr.Deref(s.CEL, resourceapi.CELDeviceSelector{}).Expression + "\n")
	}
}

func (p *parser) file(data []byte) error {
	for line, document := range archive.Documents(data) {
		for object := range archive.ObjectsIn(document) {
			err := p.document(object)
			switch {
			case err != nil && line > 1:
				return fmt.Errorf("document at line %d: %w", line, err)
			case err != nil:
				return err
			}
		}
	}

	return nil
}

// document reads an object or a list of objects.
func (p *parser) document(data []byte) error {
	data = bytes.TrimSpace(data)
	if !json.Valid(data) { // YAML's reader takes ten times as long for JSON
		var err error
		if data, err = yaml.YAMLToJSONStrict(data); err != nil {
			return fmt.Errorf("parse objects: %w", err)
		}
	}

	var head metav1.TypeMeta
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("parse objects: %w", err)
	}

	kind, isList := strings.CutSuffix(head.Kind, "List")
	switch {
	case bytes.Equal(data, []byte("null")): // comments alone
		return nil
	case isList:
		return p.list(metav1.TypeMeta{Kind: kind, APIVersion: head.APIVersion}, data)
	}

	return p.object(head, data)
}

// list reads the items of a list, one after the other: all at once would take its memory again.
func (p *parser) list(inherited metav1.TypeMeta, data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	for depth := 0; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("parse objects: %w", err)
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		case token == "items" && depth == 1:
			return p.items(inherited, d, data)
		}
	}
}

// items reads the items of a list, which begin where a decoder of data is.
func (p *parser) items(inherited metav1.TypeMeta, d *json.Decoder, data []byte) error {
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return err // null
	}

	var item json.RawMessage // whose memory each reuses
	for d.More() {
		err := d.Decode(&item)
		if err == nil {
			end := int(d.InputOffset())
			err = p.object(inherited, data[end-len(item):end])
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// object reads one object. Its list gives it kind and version, unless it has its own.
func (p *parser) object(inherited metav1.TypeMeta, data []byte) error {
	head := struct {
		metav1.TypeMeta
		Metadata struct{ Namespace, Name string }
	}{TypeMeta: inherited}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("parse objects: %w", err)
	}

	name := strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/")
	isDRA := strings.HasPrefix(head.APIVersion, resourceapi.GroupName+"/")
	switch {
	case head.Kind == "":
		return fmt.Errorf("parse objects: object %q has no kind", words.Abridge(name))
	case isDRA && head.Kind != "DeviceTaintRule" && // which has been the same in each version
		head.APIVersion != resourceapi.SchemeGroupVersion.String():
		return fmt.Errorf("%s %s is of %s, must be of %s", head.Kind, name, head.APIVersion,
			resourceapi.SchemeGroupVersion)
	}

	key := head.Kind + " " + name
	if head.Metadata.Name != "" && p.seen[key] {
		return nil
	}

	p.seen[key] = true
	if head.Kind == "ResourceSlice" {
		p.slices = append(p.slices, unparsed{p.name, key, data})
		return nil
	}

	if err := p.objects.add(head.Kind, data); err != nil {
		return fmt.Errorf("parse %s: %w", key, err)
	}

	return nil
}

// add decodes an object into the list of its kind.
func (o *Objects) add(kind string, data []byte) error {
	switch kind {
	case "Node":
		return decode(&o.Nodes, data, keptOfNode)
	case "Pod":
		return o.addPod(data)
	case "DeviceClass":
		return decode(&o.Classes, data, nil)
	case "ResourceClaim":
		return decode(&o.Claims, data, keptOfClaim)
	case "ResourceClaimTemplate":
		return decode(&o.Templates, data, nil)
	case "DeviceTaintRule":
		return o.addTaintRule(data)
	case "KubeVirt":
		return decode(&o.KubeVirts, data, nil)
	case "VirtualMachine":
		return decode(&o.VMs, data, nil)
	case "VirtualMachineInstance":
		return decode(&o.VMIs, data, nil)
	}

	o.ignored[kind]++
	return nil
}

// keptOfNode returns what decides whether pods may run on a node, and how many.
func keptOfNode(n *corev1.Node) *corev1.Node {
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
	if partitions, isSet := n.Annotations[PartitionsAnnotation]; isSet {
		kept.Annotations = map[string]string{PartitionsAnnotation: partitions}
	}

	kept.Spec = corev1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}
	kept.Status = corev1.NodeStatus{
		Allocatable:      n.Status.Allocatable,
		Conditions:       n.Status.Conditions,
		DeclaredFeatures: n.Status.DeclaredFeatures,
		NodeInfo:         corev1.NodeSystemInfo{KubeletVersion: n.Status.NodeInfo.KubeletVersion},
	}

	return kept
}

// addPod adds a pod, unless it has ended.
func (o *Objects) addPod(data []byte) error {
	var p corev1.Pod
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}

	if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
		o.Pods = append(o.Pods, &Pod{
			Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName,
			Requests: podrequests.PodRequests(&p, podrequests.PodResourcesOptions{}),
		})
	}

	return nil
}

// addTaintRule adds a rule, unless Kubernetes 1.34 or older has it for devices of a class or with an
// expression: without these fields, which 1.35 removed, it would be about others, too.
func (o *Objects) addTaintRule(data []byte) error {
	var old struct {
		Metadata struct{ Name string }
		Spec     struct {
			DeviceSelector struct {
				DeviceClassName *string
				Selectors       []resourceapi.DeviceSelector
			}
		}
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}

	if s := old.Spec.DeviceSelector; s.DeviceClassName != nil || len(s.Selectors) > 0 {
		o.notes = append(o.notes, fmt.Sprintf("not counted: DeviceTaintRule %s, which selects "+
			"devices by class or expression, as Kubernetes until 1.34", old.Metadata.Name))
		return nil
	}

	return decode(&o.TaintRules, data, nil)
}

// decode appends an object, or what is kept of it.
func decode[T any](to *[]*T, data []byte, kept func(*T) *T) error {
	object := new(T)
	err := json.Unmarshal(data, object)
	if kept != nil {
		object = kept(object)
	}

	*to = append(*to, object)
	return err
}

// keptOfClaim returns what a claim requests and what it got.
func keptOfClaim(c *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	kept := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Annotations: c.Annotations,
		},
		Spec: c.Spec,
		Status: resourceapi.ResourceClaimStatus{
			Allocation: c.Status.Allocation, ReservedFor: c.Status.ReservedFor,
		},
	}

	return kept
}
