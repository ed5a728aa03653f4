// Package apiserver stands in for the API server of a cluster with KubeVirt, as far as
// kubectl's plugin needs one: it serves objects and logs, and runs commands in containers,
// all from files. `make kubectl` has the real one.
//
// A file has YAML documents. Each is an object as the API server returns it, or one of
// these two:
//
//	kind: Container                     # what commands in a container print
//	metadata: {name: compute, namespace: default}
//	pod: virt-launcher-dgx              # or a pattern, of pods that clients create
//	commands:
//	- {command: virsh uri, stdout: "qemu:///system\n"}
//	- {command: sh -s, input: guest-exec, file: answer.json}  # where its input has that text
//	- {command: cat x, stderr: no such file, exit: 1}
//	log: what it logs                   # or logFile: FILE
//	previous: what it logged before its restart
//	---
//	kind: Refusal                       # of a verb on a resource, in all namespaces without one
//	metadata: {namespace: default}
//	verb: create
//	resource: pods/exec
//	message: a policy's message         # in the place of that of a missing right
//	allNamespaces: true                 # only of requests for all namespaces
//
// With `from: FILE` an object is the JSON of that file with the document's fields in
// place of its own; null removes one. Of two objects with one name, and of two answers to
// one command, the first counts, so a file can change what the next one has.
package apiserver
