package domain

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// Option is an option of QEMU in qemu:commandline whose value has keys: -global or
// -fw_cfg.
type Option struct {
	Name  string // "-global"
	Value string // "driver=pcie-root-port,property=x-speed,value=32,id=…"
}

// The options that Domain.Options has.
const (
	OptionGlobal = "-global"
	OptionFWCfg  = "-fw_cfg"
)

// OptionPrefix begins the ids of options that Apply may add, replace and remove.
const OptionPrefix = "hook-sidecar-"

// ID is the id of an option, "" without one. QEMU refuses two options of a name with
// one id (util/qemu-option.c, qemu_opts_create).
func (o Option) ID() string { return o.Key("id") }

// IsManaged reports whether the id says that a hook wrote the option.
func (o Option) IsManaged() bool { return strings.HasPrefix(o.ID(), OptionPrefix) }

// Key is the value of a key, "" where it is absent. Of a key that appears twice the last
// counts, and a comma in a value is written twice (util/qemu-option.c,
// qemu_opt_find and get_opt_value).
func (o Option) Key(key string) string {
	const comma = "\x00" // XML cannot hold it
	found := ""
	for part := range strings.SplitSeq(strings.ReplaceAll(o.Value, ",,", comma), ",") {
		if name, value, _ := strings.Cut(part, "="); name == key {
			found = strings.ReplaceAll(value, comma, ",")
		}
	}
	return found
}

// global is the property that a -global sets. QEMU has two forms, of which the short
// one is DRIVER.PROPERTY=VALUE (softmmu/qdev-monitor.c, qemu_global_option).
func (o Option) global() (driver, property, value string) {
	name, value, found := strings.Cut(o.Value, "=")
	if driver, property, isShort := strings.Cut(name, "."); found && isShort {
		return driver, property, value
	}
	return o.Key("driver"), o.Key("property"), o.Key("value")
}

// fwcfgName is the name of an entry that -fw_cfg adds; the key may be left out (QEMU
// softmmu/vl.c, qemu_fw_cfg_opts).
func (o Option) fwcfgName() string {
	first, _, _ := strings.Cut(o.Value, ",")
	return cmp.Or(o.Key("name"), first)
}

// Global is the last of the options that set a property of QEMU's devices with this
// driver, which is the one that counts, and its value; nil without one.
func (d *Domain) Global(driver, property string) (last *Option, value string) {
	for i, o := range d.Options {
		if of, name, set := o.global(); o.Name == OptionGlobal && of == driver && name == property {
			last, value = &d.Options[i], set
		}
	}
	return last, value
}

// FWCfg is the option that adds an entry to fw_cfg, or nil. QEMU refuses a second one
// with the name.
func (d *Domain) FWCfg(name string) *Option {
	for i, o := range d.Options {
		if o.Name == OptionFWCfg && o.fwcfgName() == name {
			return &d.Options[i]
		}
	}
	return nil
}

// WithOptions is the domain with the options of changes.
func (d *Domain) WithOptions(changes map[string]*Option) *Domain {
	next := *d
	next.Options = nil
	kept := map[string]bool{}
	for _, o := range d.Options {
		set, isSet := changes[o.ID()]
		switch {
		case !isSet || !o.IsManaged():
			next.Options = append(next.Options, o)
		case set != nil && !kept[o.ID()]:
			next.Options = append(next.Options, *set)
			kept[o.ID()] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if set := changes[id]; set != nil && !kept[id] {
			next.Options = append(next.Options, *set)
		}
	}
	return &next
}

// option is where an option is in the bytes: the arg with its name and the one with
// its value.
type option struct{ name, value *xmledit.Element }

// options reads the options of qemu:commandline. What is neither of the two may be the
// value of another option, and is skipped.
func (r *reader) options(root *xmledit.Element) error {
	var name *xmledit.Element
	defer func() { r.domain.doc.lacksValue = name != nil }()
	for e := range qemu(root, "commandline", "arg") {
		text := e.Value("value")
		if name != nil {
			r.domain.Options = append(r.domain.Options, Option{Name: optionName(name.Value("value")), Value: text})
			r.domain.doc.options = append(r.domain.doc.options, option{name, e})
			name = nil
			continue
		}
		if optionName(text) != "" {
			name = e
		}
	}
	return nil
}

// optionName is the name of an option that Domain.Options has, else "". QEMU takes two
// dashes for one (softmmu/vl.c, lookup_opt).
func optionName(arg string) string {
	switch arg {
	case OptionGlobal, "-" + OptionGlobal:
		return OptionGlobal
	case OptionFWCfg, "-" + OptionFWCfg:
		return OptionFWCfg
	}
	return ""
}

// setOptions changes the managed options in qemu:commandline.
func (e *editor) setOptions(changes map[string]*Option) error {
	for id, set := range changes {
		if !strings.HasPrefix(id, OptionPrefix) || set != nil && (set.ID() != id || optionName(set.Name) == "") {
			return fmt.Errorf("set option %q of QEMU: want %s or %s with that id, which must begin with %s", id, OptionGlobal, OptionFWCfg, OptionPrefix)
		}
	}
	kept, gone := map[string]bool{}, map[*xmledit.Element]bool{}
	for i, now := range e.domain.Options {
		set, isSet := changes[now.ID()]
		at := e.domain.doc.options[i]
		switch {
		case !isSet:
		case set == nil || kept[now.ID()]:
			gone[at.name], gone[at.value] = true, true
		default:
			kept[now.ID()] = true
			e.setArg(at.name, set.Name)
			e.setArg(at.value, set.Value)
		}
	}
	var added []string // args
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if set := changes[id]; set != nil && !kept[id] {
			added = append(added, set.Name, set.Value)
		}
	}
	if len(added) > 0 && e.domain.doc.lacksValue {
		return errors.New("add options of QEMU: the last one in qemu:commandline has no value, and would take the next argument for it")
	}
	e.removeArgs(gone, len(added) > 0)
	e.addArgs(added)
	return nil
}

func (e *editor) setArg(arg *xmledit.Element, value string) {
	if arg.Value("value") != value {
		e.edit(e.xml.SetAttr(arg, "value", value))
	}
}

// removeArgs removes args, and each qemu:commandline that has nothing else, but for the
// last one where args are added to it.
func (e *editor) removeArgs(gone map[*xmledit.Element]bool, keepsLast bool) {
	lines := e.qemuElements("commandline")
	for i, line := range lines {
		e.edits = append(e.edits, e.xml.RemoveChildren(line, func(arg *xmledit.Element) bool { return gone[arg] }, keepsLast && i == len(lines)-1)...)
	}
}

// addArgs adds args after all others, to the last qemu:commandline, or adds one with
// them: libvirt reads all of them as one list.
func (e *editor) addArgs(values []string) {
	if len(values) == 0 {
		return
	}
	var last *xmledit.Element
	if lines := e.qemuElements("commandline"); len(lines) > 0 {
		last = lines[len(lines)-1]
	}
	e.insertQEMU(last, "commandline", func(prefix string) []string {
		args := make([]string, len(values))
		for i, value := range values {
			args[i] = fmt.Sprintf(`<%sarg value="%s"></%[1]sarg>`, prefix, xmledit.Escape(value))
		}
		return args
	})
}

// qemuElements are the root's elements of a name in QEMU's namespace.
func (e *editor) qemuElements(name string) []*xmledit.Element {
	var found []*xmledit.Element
	for _, child := range e.xml.Root().Children {
		if child.Is(qemuSpace, name) {
			found = append(found, child)
		}
	}
	return found
}

// insertQEMU puts elements, printed with the prefix of QEMU's namespace, into one of
// qemuElements, or into a new one with the name where that is nil. It declares the
// namespace where the root does not: KubeVirt loses the root's declaration between calls
// (virtwrap/api/schema.go, DomainSpec.XmlNS).
func (e *editor) insertQEMU(into *xmledit.Element, name string, printed func(prefix string) []string) {
	if into != nil {
		e.edit(e.xml.InsertLast(into, printed(strings.TrimSuffix(into.Name, into.Local))...))
		return
	}
	root := e.xml.Root()
	prefix, declaration := "qemu:", fmt.Sprintf(` xmlns:qemu="%s"`, qemuSpace)
	for _, a := range root.Attrs {
		if bound, isPrefix := strings.CutPrefix(a.Name, "xmlns:"); isPrefix && a.Value == qemuSpace {
			prefix, declaration = bound+":", ""
			break
		}
	}
	name = prefix + name
	e.edit(e.xml.InsertLast(root, strings.Replace(wrapped(name, printed(prefix)), "<"+name, "<"+name+declaration, 1)))
}
