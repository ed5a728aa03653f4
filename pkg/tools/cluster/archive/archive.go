// Package archive has the form of what kubectl hostdev collect writes, and reads it: files of one
// directory, as they are or in a tar archive (write.go, read.go). It also reads what users pack by
// hand.
//
//	collected.yaml                   the Index
//	objects/RESOURCE.json            what the API server has, a list per resource
//	pods/NAMESPACE/POD/              about a pod:
//	    CONTAINER.log                what a container logs
//	    CONTAINER.previous.log       and logged before its restart
//	    CONTAINER.txtar              a snapshot of the node, read in that container
//	    domain.xml                   the domain that libvirt has in the pod
//	    variables.txt                the variables of compute
package archive

import (
	"path"
	"strings"
	"time"
)

// IndexName is the name of the file that begins an archive.
const IndexName = "collected.yaml"

// Index says what an archive has.
type Index struct {
	SchemaVersion int               `json:"schemaVersion"` // 1
	Time          time.Time         `json:"time"`
	Tool          string            `json:"tool"`     // and its version
	VMs           []string          `json:"vms"`      // as NAMESPACE/NAME
	Versions      map[string]string `json:"versions"` // of the cluster's parts
	Removed       []Removal         `json:"removed"`  // what is or may be secret, and in no file
	Unread        []Gap             `json:"unread"`   // what could not be read, and why
}

// Removal says how many values were removed from a file, and which.
type Removal struct {
	File  string `json:"file"`
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Gap is what an archive lacks.
type Gap struct {
	What string `json:"what"` // a resource, with the namespace "NAMESPACE: RESOURCE", or a file
	Why  string `json:"why"`  // the error, and the right that grants it
}

// File is a file of an archive, or one of a user's.
type File struct {
	Name string // without the archive's directory
	Data []byte
}

// Objects returns what a Gap says of objects of one namespace.
func Objects(namespace, resource string) string { return namespace + ": " + resource }

// ObjectsOf returns the name of the file with the objects of a resource.
func ObjectsOf(resource string) string { return "objects/" + resource + ".json" }

// OfPod returns the name of a file that is about a pod.
func OfPod(namespace, pod, file string) string { return path.Join("pods", namespace, pod, file) }

// LogOf returns the name of the file with a container's log, or with that from before its restart.
func LogOf(container string, before bool) string {
	if before {
		return container + ".previous.log"
	}
	return container + ".log"
}

// The names of files of a pod: what libvirt has in it, and the variables of compute.
const (
	DomainName    = "domain.xml"
	VariablesName = "variables.txt"
	PortHelpName  = "switch-port.txt"
)

// SnapshotIn returns the name of the snapshot of a pod's node that was read in a container.
func SnapshotIn(container string) string { return container + ".txtar" }

// IsObjects reports whether a file has objects.
func (f File) IsObjects() bool { return strings.HasPrefix(f.Name, "objects/") }

// Log returns the pod and the container whose log a file is.
func (f File) Log() (namespace, pod, container string, isLog bool) {
	namespace, pod, container, isLog = f.podFile(".log")
	return namespace, pod, strings.TrimSuffix(container, ".previous"), isLog
}

// Snapshot returns the pod through which a file, a node's snapshot, was read.
func (f File) Snapshot() (namespace, pod string, isSnapshot bool) {
	namespace, pod, _, isSnapshot = f.podFile(".txtar")
	return namespace, pod, isSnapshot
}

// OfPod returns the pod that a file is about, and the file's name of it.
func (f File) OfPod() (namespace, pod, name string, isOfPod bool) { return f.podFile("") }

// podFile returns the pod that a file with an ending is about, and the file's name without it.
func (f File) podFile(ending string) (namespace, pod, name string, hasEnding bool) {
	parts := strings.Split(f.Name, "/")
	if len(parts) != 4 || parts[0] != "pods" {
		return "", "", "", false
	}

	name, hasEnding = strings.CutSuffix(parts[3], ending)
	return parts[1], parts[2], name, hasEnding
}
