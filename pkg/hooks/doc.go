// Package hooks speaks KubeVirt's hook protocols: the server that a sidecar
// runs, and the client that virt-launcher is. It decides nothing about a
// domain; a Mutator does.
//
//	virt-launcher ──unix socket──▶ Info, Callbacks v1alpha1 … v1alpha3 ─┐
//	              ──unix socket──▶ DomainHookService (plugins) ─────────┴─▶ Mutator
//
// Two rules hold for every answer. The hook is never the reason why a VM does
// not start: a panic, or an empty reply, sends the input's bytes back. And only
// a Mutator's error fails a call, for that is how strict policy refuses.
//
// See package api for what happens when KubeVirt's own stubs are linked into
// the same binary.
package hooks
