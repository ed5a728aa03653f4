// Package domain is the libvirt domain: what placement reads of it, and lossless
// edits. Parse records where every element is in the bytes; Apply splices changes
// in at these spans, so that everything outside an edit stays byte for byte. The
// package knows XML and no policy.
package domain
