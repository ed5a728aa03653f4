// Package abuse gives the product hostile input: domains, VMIs and environment
// variables that try to reach other files or other XML, and a host that changes
// while it is read. docs/troubleshooting.md has what these tests hold; those that
// need a process of their own are in hook-sidecar/test/sidecar.
package abuse
