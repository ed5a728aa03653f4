// Package abuse feeds the product input that lies: domains, VMIs and variables
// that try to reach other files or other XML, and a host that changes while it
// is read. The rows of docs/reliability.md name these tests; those that need a
// process of its own are in hook-sidecar/test/sidecar.
package abuse
