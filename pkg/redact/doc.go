// Package redact has the rules for secrets. What a command prints or writes of objects, logs and
// domains has gone through it: Text for messages and logs (text.go), Objects for what the API
// server returns (object.go), Domain for libvirt's XML (domain.go), Variables for an environment.
// It removes more rather than less.
package redact
