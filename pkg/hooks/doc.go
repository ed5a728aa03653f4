// Package hooks implements KubeVirt's hook protocols: the server of a sidecar, and
// a client like virt-launcher. A Mutator changes the domain.
//
//	virt-launcher ──unix socket──▶ Info, Callbacks v1alpha1 … v1alpha3 ─┐
//	              ──unix socket──▶ DomainHookService,                   │
//	                               LauncherHookService (plugins) ───────┴─▶ Mutator
//
// A failure of the hook must not keep a VM from starting: after a panic or an
// empty result the server returns the input. Only an error of the Mutator fails a
// call, because that is how strict policy refuses a domain.
//
// A binary that also links KubeVirt's own stubs may panic at start: see package api.
package hooks
