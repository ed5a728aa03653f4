package domain

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// references finds the PCI controllers that are named outside their own element. An override
// of the hook does not count: it is written anew with the tree.
func (r *reader) references(root *xmledit.Element) error {
	refer := func(index int) {
		if !slices.Contains(r.domain.References, index) {
			r.domain.References = append(r.domain.References, index)
		}
	}

	for e := range all(root, "devices", "iommu", "driver") {
		index, ok, err := r.attrNumber(e, "pciBus", 10, 0, 255)
		if err != nil {
			return err
		}

		if ok {
			refer(int(index))
		}
	}

	// The rest is named as QEMU names it, pci.9 or by alias: in overrides of the user, and as a word
	// of an argument.
	indexOf := r.indexesByName()
	byName := func(name string) {
		if index, found := indexOf(name); found {
			refer(index)
		}
	}

	own := r.marked()
	for e := range all(root, "qemu:override", "qemu:device") {
		if !own[e] {
			byName(e.Value("alias"))
		}
	}

	for _, arg := range r.domain.Args {
		for _, word := range strings.FieldsFunc(arg, isSeparator) {
			byName(word)
		}
	}

	r.commandLine(root, indexOf)
	return nil
}

// indexesByName returns what finds the index of a controller by QEMU's name for it.
func (r *reader) indexesByName() func(name string) (index int, found bool) {
	aliases := map[string]int{}
	for _, c := range r.domain.Controllers {
		aliases[c.Alias] = c.Index
	}

	return func(name string) (int, bool) {
		if index, found := aliases[name]; found && name != "" {
			return index, true
		}
		return busIndex(name)
	}
}

// busIndex returns the index in the name pci.N of a controller without an alias (libvirt
// src/qemu/qemu_alias.c, qemuAssignDeviceControllerAlias), but not of the root bus, pcie.0.
func busIndex(name string) (int, bool) {
	digits, found := strings.CutPrefix(name, "pci.")
	if !found || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}

	index, ok := number(digits, 10)
	return int(index), ok && index <= 255
}

// IsUserAlias reports whether libvirt keeps an alias (src/conf/domain_conf.c,
// virDomainDeviceAliasIsUserAlias): it has letters, digits, _ and -.
func IsUserAlias(alias string) bool {
	name, found := strings.CutPrefix(alias, "ua-")
	return found && name != "" && !strings.Contains(name, ".") &&
		!strings.ContainsFunc(name, isSeparator)
}

// isSeparator reports whether c separates names in an argument of QEMU: those of libvirt's own
// have the characters of an alias and dots.
func isSeparator(c rune) bool {
	return !strings.ContainsRune("_-.", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') &&
		(c < 'A' || c > 'Z')
}
