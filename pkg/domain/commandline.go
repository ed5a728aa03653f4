package domain

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"hook-sidecar/pkg/domain/xmledit"
)

// Option is an option of QEMU in qemu:commandline whose value has keys.
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

// Options returns the options of qemu:commandline, in document order.
func (d *Domain) Options() []Option { return of[Option](d.Fragments) }

// ID returns the id of an option, "" without one. QEMU refuses two options of a name with one id
// (util/qemu-option.c, qemu_opts_create).
func (o Option) ID() string { return o.Key("id") }

// Mark returns the id if it begins with OptionPrefix.
func (o Option) Mark() Mark {
	if id := o.ID(); strings.HasPrefix(id, OptionPrefix) {
		return Mark(id)
	}
	return ""
}

// Key returns the value of a key, "" where it is absent. Of a duplicate key the last counts, and
// a comma in a value is written twice (util/qemu-option.c, qemu_opt_find and get_opt_value).
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

// global returns the property that a -global sets. Its short form is DRIVER.PROPERTY=VALUE
// (softmmu/qdev-monitor.c, qemu_global_option).
func (o Option) global() (driver, property, value string) {
	name, value, found := strings.Cut(o.Value, "=")
	if driver, property, isShort := strings.Cut(name, "."); found && isShort {
		return driver, property, value
	}
	return o.Key("driver"), o.Key("property"), o.Key("value")
}

// fwcfgName returns the name of the entry that -fw_cfg adds; the key may be left out (QEMU
// softmmu/vl.c, qemu_fw_cfg_opts).
func (o Option) fwcfgName() string {
	first, _, _ := strings.Cut(o.Value, ",")
	return cmp.Or(o.Key("name"), first)
}

// Global returns the last option that sets a property of QEMU's devices with a driver, which is
// the one that counts, and its value; nil without one.
func (d *Domain) Global(driver, property string) (last *Option, value string) {
	for _, o := range d.Options() {
		if of, name, set := o.global(); o.Name == OptionGlobal && of == driver && name == property {
			last, value = &o, set
		}
	}
	return last, value
}

// FWCfg returns the option that adds an entry to fw_cfg, or nil. QEMU refuses a second one.
func (d *Domain) FWCfg(name string) *Option {
	for _, o := range d.Options() {
		if o.Name == OptionFWCfg && o.fwcfgName() == name {
			return &o
		}
	}
	return nil
}

// options reads the options of qemu:commandline. A value may look like an option, as in
// -append -global.
func (r *reader) options(root *xmledit.Element) error {
	var name *xmledit.Element
	for e := range all(root, "qemu:commandline", "qemu:arg") {
		text := e.Value("value")
		switch {
		case name == nil && takesValue(text):
			name = e
		case name != nil:
			if known := optionName(name.Value("value")); known != "" {
				r.fragment(Option{Name: known, Value: text}, name, e)
			}
			name = nil
		}
	}

	r.domain.doc.lacksValue = name != nil && optionName(name.Value("value")) != ""
	return nil
}

// takesValue reports whether an argument is an option of QEMU with a value, as an unknown one
// is: of some 140 options these have none (QEMU 7.2 to 11, qemu-options.hx).
func takesValue(arg string) bool {
	name, isOption := strings.CutPrefix(arg, "-")
	return isOption && !slices.Contains([]string{
		"h", "help", "version", "S", "s", "daemonize", "enable-kvm", "full-screen", "mem-prealloc",
		"nodefaults", "nographic",
		"no-acpi", "no-fd-bootchk", "no-hpet", "no-reboot", "no-shutdown", "no-user-config",
		"only-migratable", "preconfig",
		"semihosting", "snapshot", "usb", "win2k-hack", "xen-attach", "xen-domid-restrict",
		"enable-sync-profile",
		"old-param", "one-insn-per-tb", "singlestep", "portrait", "enable-fips",
	}, strings.TrimPrefix(name, "-"))
}

// optionName returns the name of an option that Domain.Options has, else "". QEMU takes two
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

// replace sets the values of an option's two args.
func (o Option) replace(e *editor, at []*xmledit.Element) {
	for i, value := range []string{o.Name, o.Value} {
		if at[i].Value("value") != value {
			e.edit(e.xml.SetAttr(at[i], "value", value))
		}
	}
}

// setOptions removes options, and adds some after all others: libvirt reads all elements as
// one list.
func (e *editor) setOptions() error {
	added := of[Option](e.added)
	if len(added) > 0 && e.domain.doc.lacksValue {
		return errors.New("add options of QEMU: the last one in qemu:commandline has no value, " +
			"and would take the next argument for it")
	}

	e.setQEMU("commandline", func(prefix string) []string {
		var args []string
		for _, o := range added {
			for _, value := range []string{o.Name, o.Value} {
				args = append(args, element(prefix+"arg", []attribute{{"value", value}}))
			}
		}

		return args
	})

	return nil
}

// setQEMU removes gone elements from the root's elements with a name in QEMU's namespace, and puts
// printed ones into the last that has any, else into the first, or into a new one: libvirt's schema
// allows one.
func (e *editor) setQEMU(name string, printed func(prefix string) []string) {
	parents := slices.Collect(all(e.xml.Root(), "qemu:"+name))
	var into *xmledit.Element
	for _, parent := range parents {
		if into == nil || len(parent.Children) > 0 {
			into = parent
		}
	}

	prefix, declaration := e.qemuPrefix(into)
	elements := printed(prefix)
	if len(elements) == 0 {
		e.removeFrom(parents, nil)
		return
	}

	e.removeFrom(parents, into)
	if into == nil {
		e.edit(e.xml.InsertLast(e.xml.Root(), element(prefix+name, declaration, elements...)))
		return
	}

	e.edit(e.xml.Fill(into, elements...))
}

// qemuPrefix returns the prefix of QEMU's namespace in an element, or under the root where that
// is nil, with a declaration where the root has none: KubeVirt loses it between calls
// (virtwrap/api/schema.go, DomainSpec.XmlNS).
func (e *editor) qemuPrefix(in *xmledit.Element) (string, []attribute) {
	if in != nil {
		return strings.TrimSuffix(in.Name, in.Local), nil
	}

	for _, a := range e.xml.Root().Attrs {
		if bound, isPrefix := strings.CutPrefix(a.Name, "xmlns:"); isPrefix &&
			a.Value == qemuSpace {
			return bound + ":", nil
		}
	}

	return "qemu:", []attribute{{"xmlns:qemu", qemuSpace}}
}
