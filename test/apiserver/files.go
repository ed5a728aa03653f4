package apiserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Cluster is a cluster that is read from files.
type Cluster struct {
	PageSize int      // how many objects one answer has
	Made     sync.Map // pods that clients created and have not deleted, by name

	dir        string // of the files that commands print
	objects    []document
	containers []document
	refusals   []document
}

// isOf reports whether a document is of a container of a pod, whose name may match the document's
// pattern.
func (d document) isOf(namespace, pod, container string) bool {
	isPod, _ := path.Match(d.Pod, pod)
	return isPod && d.Metadata.Namespace == namespace && d.Metadata.Name == container
}

// document is a document of a file.
type document struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	From     string            `json:"from"`

	Pod      string    `json:"pod"`
	Commands []command `json:"commands"`
	Log      string    `json:"log"`
	LogFile  string    `json:"logFile"`  // has its log
	Previous string    `json:"previous"` // its log before its restart

	// Capability is one that the pod that a client made has to have.
	Capability corev1.Capability `json:"capability"`

	Verb     string `json:"verb"`
	Resource string `json:"resource"`
	Message  string `json:"message"`

	AllNamespaces bool `json:"allNamespaces"`

	object map[string]any
}

// command is a command in a container and its output.
type command struct {
	Command string `json:"command"` // its first words, with spaces between them
	Input   string `json:"input"`   // its standard input has this text
	Stdout  string `json:"stdout"`
	File    string `json:"file"` // has its standard output
	Stderr  string `json:"stderr"`
	Exit    int    `json:"exit"`
	Error   string `json:"error"`   // of the container's runtime, which did not start it
	Endless bool   `json:"endless"` // it prints until the client leaves
	Silent  bool   `json:"silent"`  // it does nothing until the client leaves
	Delay   int    `json:"delay"`   // milliseconds before it prints
}

// Read reads a cluster of files in a directory.
func Read(dir string, files ...string) (*Cluster, error) {
	c := &Cluster{dir: dir, PageSize: 2}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}

		for _, text := range strings.Split(string(data), "\n---\n") {
			if err := c.add(text); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}

	return c, nil
}

func (c *Cluster) add(text string) error {
	var d document
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		return err
	}

	switch d.Kind {
	case "Container":
		c.containers = append(c.containers, d)
		return nil
	case "Refusal":
		c.refusals = append(c.refusals, d)
		return nil
	}

	if d.From != "" {
		data, err := os.ReadFile(filepath.Join(c.dir, d.From))
		if err != nil {
			return err
		}

		if err := json.Unmarshal(data, &d.object); err != nil {
			return fmt.Errorf("%s: %w", d.From, err)
		}
	}

	var own map[string]any
	if err := yaml.Unmarshal([]byte(text), &own); err != nil {
		return err
	}

	delete(own, "from")
	d.object = merge(d.object, own)

	// The names and labels that the merged object has.
	data, err := json.Marshal(d.object["metadata"])
	if err == nil {
		err = json.Unmarshal(data, &d.Metadata)
	}

	isNamed := func(o document) bool {
		return o.Kind == d.Kind && o.Metadata.Namespace == d.Metadata.Namespace &&
			o.Metadata.Name == d.Metadata.Name
	}

	if err == nil && !slices.ContainsFunc(c.objects, isNamed) {
		c.objects = append(c.objects, d)
	}

	return err
}

// merge returns the object with these fields (RFC 7396).
func merge(object, fields map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}

	for name, value := range fields {
		inner, isObject := value.(map[string]any)
		switch was, _ := object[name].(map[string]any); {
		case value == nil:
			delete(object, name)
		case isObject:
			object[name] = merge(was, inner)
		default:
			object[name] = value
		}
	}

	return object
}
