// Package bus describes the PCI buses of a guest: the tree that libvirt makes of a
// domain, what the root bus holds and has to have room for, the rules and the budgets
// that a guest can violate, and the addresses that its kernel shows. It decides nothing.
package bus
