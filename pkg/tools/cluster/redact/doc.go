// Package redact has the rules for secrets. What a command prints or writes of objects, logs and
// domains has gone through it: Text for messages and logs (text.go), Objects for what the API
// server returns (object.go), Domain for libvirt's XML (domain.go), Variables for an environment.
// All of them use one list of names (names.go) and one of forms (forms.go). It removes more rather
// than less, but for what an error cannot do without: numbers, PCI addresses, files of a node.
package redact
