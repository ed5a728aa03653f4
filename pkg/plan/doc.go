// Package plan plans one VM: it reads and parses the domain, the VMI and the host once, and
// returns the plans of the policy, of each layout, and of the current domain. OnDefineDomain and
// the commands query a VM. It does not log.
package plan
