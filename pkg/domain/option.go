package domain

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
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
func (d *Domain) Options() []Option { return fragmentsOf[Option](d.Fragments) }

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

// Key returns the value of a key, "" where it is absent. Of a duplicate key the last counts
// (util/qemu-option.c, qemu_opt_find).
func (o Option) Key(key string) string {
	found := ""
	for name, value := range o.keys() {
		if name == key {
			found = value
		}
	}

	return found
}

// keys yields the keys with their values, in their order. A comma in a value is written twice
// (util/qemu-option.c, get_opt_value).
func (o Option) keys() iter.Seq2[string, string] {
	const comma = "\x00" // XML cannot hold it
	return func(yield func(name, value string) bool) {
		for part := range strings.SplitSeq(strings.ReplaceAll(o.Value, ",,", comma), ",") {
			name, value, _ := strings.Cut(part, "=")
			if !yield(name, strings.ReplaceAll(value, comma, ",")) {
				return
			}
		}
	}
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
		if o.Name != OptionGlobal {
			continue
		}

		if owner, name, set := o.global(); owner == driver && name == property {
			last, value = &o, set
		}
	}

	return last, value
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

// GlobalBytes returns the size that Global names; false where it names none, or not one of QEMU's
// sizes: a number, decimal or with 0x hexadecimal, or one with a suffix, B to E, of powers of 1024
// (util/cutils.c, qemu_strtosz). Fractions are rounded down to a whole number.
func (d *Domain) GlobalBytes(driver, property string) (bytes uint64, isSet bool) {
	_, text := d.Global(driver, property)
	base := 10 // also after a leading zero
	if strings.HasPrefix(strings.ToLower(text), "0x") {
		base = 0
	}

	if n, isWhole := number(text, base); isWhole {
		return n, true
	}

	if text == "" {
		return 0, false
	}

	// What is no number as a whole has a suffix, or is none of QEMU's sizes.
	shift := strings.IndexByte("BKMGTPE", strings.ToUpper(text)[len(text)-1])
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	if size := n * float64(uint64(1)<<(10*max(0, shift))); shift >= 0 && err == nil && n >= 0 &&
		size < math.MaxInt64 {
		return uint64(size), true
	}

	return 0, false
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

var optionKind = kind{read: readOptions, place: placeOptions}

func readOptions(r *reader, root *xmledit.Element) {
	pairs, _ := pairArgs(root)
	for _, pair := range pairs {
		if name := optionName(pair[0].Value("value")); name != "" {
			r.fragment(Option{Name: name, Value: pair[1].Value("value")}, pair[0], pair[1])
		}
	}
}

// takesValue reports whether an argument is an option of QEMU with a value, as an unknown one
// is: of some 140 options these have none (QEMU 7.2 to 11, qemu-options.hx).
func takesValue(arg string) bool {
	name, isOption := strings.CutPrefix(arg, "-")
	return isOption && !slices.Contains(optionsWithoutValue, strings.TrimPrefix(name, "-"))
}

var optionsWithoutValue = []string{
	"h", "help", "version", "S", "s", "daemonize", "enable-kvm", "full-screen", "mem-prealloc",
	"nodefaults", "nographic", "no-acpi", "no-fd-bootchk", "no-hpet", "no-reboot", "no-shutdown",
	"no-user-config", "only-migratable", "preconfig", "semihosting", "snapshot", "usb",
	"win2k-hack", "xen-attach", "xen-domid-restrict", "enable-sync-profile", "old-param",
	"one-insn-per-tb", "singlestep", "portrait", "enable-fips",
}

// replace sets the values of an option's two args.
func (o Option) replace(e *editor, at []*xmledit.Element) {
	for i, value := range []string{o.Name, o.Value} {
		if at[i].Value("value") != value {
			e.edit(e.xml.SetAttr(at[i], "value", value))
		}
	}
}

// placeOptions adds options after all others: libvirt reads all elements as one list.
func placeOptions(e *editor) error {
	added := fragmentsOf[Option](e.added)
	_, last := pairArgs(e.xml.Root())
	if len(added) > 0 && last != nil && optionName(last.Value("value")) != "" {
		return errors.New("add options of QEMU: the last one in qemu:commandline has no value, " +
			"and would take the next argument for it")
	}

	prefix, _ := e.qemuPrefix(commandLine)
	for _, o := range added {
		for _, value := range []string{o.Name, o.Value} {
			e.qemu[commandLine] = append(e.qemu[commandLine],
				element(prefix+"arg", []attribute{{"value", value}}))
		}
	}

	return nil
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

// pairArgs pairs the options of qemu:commandline with their values; last is one without a value,
// or nil. A value may look like an option, as in -append -global.
func pairArgs(root *xmledit.Element) (pairs [][2]*xmledit.Element, last *xmledit.Element) {
	for e := range all(root, "qemu:commandline", "qemu:arg") {
		switch {
		case last != nil:
			pairs = append(pairs, [2]*xmledit.Element{last, e})
			last = nil
		case takesValue(e.Value("value")):
			last = e
		}
	}

	return pairs, last
}
