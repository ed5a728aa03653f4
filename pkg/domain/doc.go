// Package domain is the libvirt domain: a read model of what placement needs,
// and lossless edits. Parse records where every element stands in the bytes;
// Apply splices changes in at those spans, so that everything outside an edit
// stays byte for byte. The package knows XML and no policy.
package domain
