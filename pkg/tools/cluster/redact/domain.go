package redact

import (
	"slices"
	"strings"

	"hook-sidecar/pkg/words/lazyregexp"
)

// The parts of XML: a comment, a tag, and an attribute of a tag (XML 1.0, 2.5 and 3.1). An
// attribute's value may have a ">".
var (
	part      = lazyregexp.New(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>|<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>`)
	attribute = lazyregexp.New(`([\w:.&#;-]+)\s*=\s*("[^"]*"|'[^']*')`)
	tag       = lazyregexp.New(`^</?([\w:.-]+)`)
)

// secretElements are the elements of a domain whose text is a secret or may be one (libvirt
// docs/formatdomain.rst: direct kernel boot, SMBIOS and fw_cfg, cookies of network disks).
var secretElements = []string{
	"cmdline", "initargs", "initarg", "initenv", "entry", "cookie", "description", "title", "session",
}

// shownEntries are the entries of fw_cfg and SMBIOS that stay: the firmware's, and what says whose
// the domain is.
var shownEntries = lazyregexp.New(`name=["'](?:opt/ovmf/[\w.-]+|uuid|manufacturer|product)["']`)

// options are options of QEMU whose argument stays, but for the values of secretKey.
var options = []string{
	"-device", "-global", "-machine", "-cpu", "-numa", "-object", "-fw_cfg", "-set",
}

// optionKeys are keys of an option's argument that have a secret, beside those whose name says so: of
// fw_cfg and SMBIOS, -object secret (QEMU qemu-options.hx).
var optionKeys = []string{"string", "value", "data", "keyid", "iv", "opaque"}

// The forms of a key with its value: key=value, of an address too, where two commas are one of the
// value, and JSON.
var (
	optionPair  = lazyregexp.New(`(^|[,{\s"?&:;])([\w.-]+)(=)((?:,,|[^,"}])*)`)
	optionField = lazyregexp.New(`(")([\w.-]+)("\s*:\s*")((?:\\.|[^"\\])*)`)
)

// firmwareNumber matches an argument of -fw_cfg with a number for the firmware.
var firmwareNumber = lazyregexp.New(`^name=opt/ovmf/[\w.-]+,string=\d+$`)

// Domain removes secrets from a domain's XML: passwords, entries of fw_cfg, arguments and
// variables of QEMU, a kernel's command line, and what is secret in any text.
func Domain(xml string) (string, Removed) {
	d := domain{removed: Removed{}}
	at := 0
	for _, found := range part.FindAllStringIndex(xml, -1) {
		d.text(xml[at:found[0]])
		d.markup(xml[found[0]:found[1]])
		at = found[1]
	}

	d.text(xml[at:])
	return d.out.String(), d.removed
}

// domain is a domain that is being written.
type domain struct {
	out     strings.Builder
	removed Removed
	open    string // the tag before
	foreign bool   // in metadata, of which only KubeVirt's is known
	option  string // of QEMU, before its argument
}

// mark writes that something was removed.
func (d *domain) mark() {
	d.out.WriteString(Mark)
	d.removed[Domains]++
}

// text writes the text after a tag.
func (d *domain) text(text string) {
	if strings.TrimSpace(text) == "" {
		d.out.WriteString(text)
		return
	}

	name := ""
	if found := tag.FindStringSubmatch(d.open); found != nil && !strings.HasPrefix(d.open, "</") {
		name = found[1]
	}

	isSecret := slices.Contains(secretElements, name) || doubtOf(localName(name)) == certain
	switch {
	case isSecret && !(name == "entry" && shownEntries.MatchString(d.open)),
		d.foreign && !strings.HasPrefix(name, "kubevirt:"):
		d.mark()
	default:
		d.out.WriteString(d.removed.message(Domains, text, Text))
	}
}

// markup writes a tag, a comment or an instruction.
func (d *domain) markup(text string) {
	isInstruction := strings.HasPrefix(text, "<?") && !strings.HasPrefix(text, "<?xml ")
	if strings.HasPrefix(text, "<!") || isInstruction {
		d.out.WriteString("<!-- ")
		d.mark()
		d.out.WriteString(" -->")
		return
	}

	d.open = text
	name := ""
	if found := tag.FindStringSubmatch(text); found != nil {
		name = found[1][strings.IndexByte(found[1], ':')+1:]
	}

	if name == "metadata" {
		d.foreign = !strings.HasPrefix(text, "</")
	}

	at := 0
	for _, found := range attribute.FindAllStringSubmatchIndex(text, -1) {
		d.out.WriteString(text[at : found[4]+1]) // to the quote
		d.attribute(name, text[found[2]:found[3]], text[found[4]+1:found[5]-1])
		at = found[5] - 1
	}

	d.out.WriteString(text[at:])
}

// attribute writes the value of an attribute.
func (d *domain) attribute(element, name, value string) {
	switch {
	case element == "arg" && name == "value":
		d.argument(value)
	case element == "env" && name == "value", name == "query",
		strings.Contains(name, "&"), // which hides a name
		name == "username" && strings.Contains(value, ":"),
		element == "parameter" && name == "value" && !isFiltered(value),
		name != "value" && isSecretOf(localName(name), value),
		element == "property" && name == "value" && !publicValue.MatchString(value),
		d.foreign && !strings.HasPrefix(name, "xmlns"):
		d.mark()
	case element == "source" && name == "name": // which has the path of an address
		d.out.WriteString(d.removed.message(Domains, value, func(value string) string {
			return addressSecrets(optionSecrets(value))
		}))
	default:
		d.out.WriteString(d.removed.message(Domains, value, func(value string) string {
			return removeFlags(optionSecrets(value))
		}))
	}
}

// isFiltered reports whether a parameter of a network filter is an address or a setting (libvirt
// docs/formatnwfilter.rst).
func isFiltered(value string) bool {
	return publicValue.MatchString(value) || devices.MatchString(value)
}

// isSecretOf reports whether a value of a name is a secret.
func isSecretOf(name, value string) bool {
	doubt := doubtOf(name)
	return doubt == certain || doubt == doubtful && !publicValue.MatchString(value)
}

// argument writes an argument of QEMU.
func (d *domain) argument(value string) {
	isOption := strings.HasPrefix(value, "-")
	if option, rest, isBoth := strings.Cut(value, " "); isOption && isBoth {
		d.option = option
		d.out.WriteString(option + " ")
		d.argument(strings.TrimLeft(rest, " -"))
		return
	}

	isShown := isOption || slices.Contains(options, "-"+strings.TrimLeft(d.option, "-"))
	switch {
	case !isShown:
		d.mark()
	case isOption:
		d.out.WriteString(d.removed.message(Domains, value, bareSecrets))
	case firmwareNumber.MatchString(value):
		d.out.WriteString(value)
	case strings.TrimLeft(d.option, "-") == "fw_cfg":
		d.out.WriteString(d.removed.message(Domains, value, firmwareSecrets))
	default:
		d.out.WriteString(d.removed.message(Domains, value, optionSecrets))
	}

	d.option = ""
	if isOption {
		d.option = value
	}
}

// firmwareSecrets removes secrets from the argument of -fw_cfg. A text ends at a comma, and what comes
// after it has no key.
func firmwareSecrets(value string) string {
	parts := strings.Split(optionSecrets(value), ",")
	for i, part := range parts {
		if i > 0 && part != "" && !strings.Contains(part, "=") {
			parts[i] = Mark
		}
	}
	return strings.Join(parts, ",")
}

// optionSecrets removes secrets from the argument of an option, in the form key=value or JSON.
func optionSecrets(value string) string {
	isEscaped := strings.Contains(value, "&quot;")
	value = bareSecrets(strings.ReplaceAll(value, "&quot;", `"`))
	value = optionPairs(optionPair, optionPairs(optionField, value))
	if strings.Contains(value, " ") && !strings.Contains(value, "{") {
		value = removeSpoken(value)
	}

	if isEscaped {
		value = strings.ReplaceAll(value, `"`, "&quot;")
	}

	return value
}

// optionPairs removes the secrets of pairs of a form. A value may have pairs, too: that of an
// address.
func optionPairs(form lazyregexp.Regexp, text string) string {
	return form.ReplaceAllStringFunc(text, func(pair string) string {
		parts := form.FindStringSubmatch(pair)
		value := Mark
		if !slices.Contains(optionKeys, parts[2]) && !isSecretOf(parts[2], parts[4]) {
			value = optionPairs(optionPair, parts[4])
		}
		return parts[1] + parts[2] + parts[3] + value
	})
}
