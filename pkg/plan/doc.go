// Package plan plans one VM: it reads and parses the domain, the VMI and the host once, and
// says what the policy makes of them, what each layout would, and what the domain is now.
// OnDefineDomain and the commands are questions to a VM. It does not log.
package plan
