package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/tools/cluster/archive"
)

// FromArchives returns a client of clusters as they were when archives of them were collected.
func FromArchives(inputs ...archive.Input) (*Client, error) {
	f := &files{byName: map[string][]byte{}}
	for _, in := range inputs {
		if in.Collected == nil {
			return nil, reasons.WithHint("kubectl hostdev collect VM makes one; "+
				"hook-sidecar explain and doctor take a domain and a VMI",
				fmt.Errorf("read %s: it is no archive of kubectl hostdev collect", in.Name))
		}

		f.gaps = append(f.gaps, in.Collected.Unread...)
		for _, file := range in.Files {
			if err := f.add(in.Name, file); err != nil {
				return nil, err
			}
		}
	}

	return &Client{source: f}, nil
}

// files are what archives have. Of two objects with one name, and of two files, the first counts.
type files struct {
	objects []stored
	byName  map[string][]byte
	gaps    []archive.Gap
}

// stored is an object of a list.
type stored struct {
	resource, kind string
	metadata       metav1.ObjectMeta
	data           json.RawMessage
}

// add adds a file of an archive.
func (f *files) add(archived string, file archive.File) error {
	if !file.IsObjects() {
		if f.byName[file.Name] == nil {
			f.byName[file.Name] = file.Data
		}
		return nil
	}

	var list struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal(file.Data, &list); err != nil {
		return fmt.Errorf("read %s: %s: %w", archived, file.Name, err)
	}

	resource := strings.TrimSuffix(path.Base(file.Name), path.Ext(file.Name))
	for _, item := range list.Items {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(item, &head); err != nil {
			return fmt.Errorf("read %s: %s: %w", archived, file.Name, err)
		}

		if f.find(Query{Resource: resource, Namespace: head.Namespace, Name: head.Name}) == nil {
			f.objects = append(f.objects, stored{resource, list.Kind, head.ObjectMeta, item})
		}
	}

	return nil
}

// find returns an object, nil if there is none.
func (f *files) find(q Query) json.RawMessage {
	for _, o := range f.objects {
		isNamed := o.metadata.Namespace == q.Namespace && o.metadata.Name == q.Name
		if o.resource == q.Resource && isNamed {
			return o.data
		}
	}

	return nil
}

// query returns objects, as the API server does. What an archive lacks is an error that says why.
func (f *files) query(_ context.Context, doing string, q Query) ([]byte, error) {
	if q.Verb != "" || q.Part != "" {
		return nil, fmt.Errorf("%s: files are read, and no cluster", doing)
	}

	var data []byte
	if q.Name != "" {
		data = f.find(q)
	} else if data = f.list(q); data != nil {
		return data, nil
	}

	if gap := f.gap(q.Resource, q.Namespace); data == nil && gap != "" {
		return nil, fmt.Errorf("%s: it was not collected: %s", doing, gap)
	}

	if data == nil {
		resource := schema.GroupResource{Group: q.Group, Resource: q.Resource}
		return nil, fmt.Errorf("%s: %w", doing, apierrors.NewNotFound(resource, q.Name))
	}

	return data, nil
}

// list returns a list of the objects that a query asks for; nil if there is none.
func (f *files) list(q Query) []byte {
	selector, err := labels.Parse(q.Parameters["labelSelector"])
	if err != nil {
		return nil
	}

	list := struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}{"List", []json.RawMessage{}}

	for _, o := range f.objects {
		isIn := q.Namespace == "" || q.Namespace == o.metadata.Namespace
		if o.resource == q.Resource && isIn && selector.Matches(labels.Set(o.metadata.Labels)) {
			list.Kind, list.Items = o.kind, append(list.Items, o.data)
		}
	}

	if len(list.Items) == 0 && f.gap(q.Resource, q.Namespace) != "" {
		return nil
	}

	data, err := json.Marshal(list)
	if err != nil {
		return nil
	}

	return data
}

// gap returns why an archive lacks objects or a file; "" if nothing is known to be missing.
func (f *files) gap(what, namespace string) string {
	for _, gap := range f.gaps {
		if gap.What == what || namespace != "" && gap.What == archive.Objects(namespace, what) {
			return gap.Why
		}
	}
	return ""
}

// exec returns what a command printed when the archive was made.
func (f *files) exec(_ context.Context, pod *corev1.Pod, cmd command) ([]byte, error) {
	if cmd.file == "" {
		return nil, reasons.WithHint("pass a file of the guest with --guest-file",
			errors.New("files are read, and nothing can be asked of the guest"))
	}

	name := archive.OfPod(pod.Namespace, pod.Name, cmd.file)
	if data := f.byName[name]; data != nil {
		return data, nil
	}

	why := f.gap(name, "")
	if why == "" {
		why = "it has no such file"
	}

	return nil, fmt.Errorf("read %s of the archive: %s", name, why)
}
