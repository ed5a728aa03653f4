// Package abuse gives the product hostile input: domains, VMIs and environment
// variables that try to reach other files or other XML, and a host that changes
// while it is read. The rows of docs/reliability.md name these tests; those that
// need a process of their own are in hook-sidecar/test/sidecar.
package abuse
