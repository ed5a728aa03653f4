// Package plan plans one VM: it reads and parses the domain, the VMI and the host once, and
// returns the plan of the policy, that of each layout, and that of the current domain.
// OnDefineDomain and the commands query a VM. It does not log.
package plan
