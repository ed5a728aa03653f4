// Package readback models what KubeVirt does to a libvirt domain between two hook
// calls of one boot: it reads back what libvirt (package oracle) holds into its own
// types, which lose what they do not know, and prints it again. With it tests play
// the calls of a boot and see whether the answers converge.
package readback

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hook-sidecar/test/tree"
)

//go:embed fields.txt
var fieldTable string

// Version is a KubeVirt whose sequence of calls is modelled.
type Version int

const (
	// V190 is the release v1.9.0.
	V190 Version = iota
	// Main is the main branch after v1.9.0 (read at commit 00341b09120e; the
	// samples were recorded at d923fdb815cd). It differs in two things: it reads
	// the domain back also when no placeholder interfaces were added, and
	// always makes a last call (virtwrap/manager.go, allocateHotplugPorts); and
	// its controllers keep target/@hotplug (virtwrap/api/schema.go).
	Main
)

type field struct {
	name string // of the attribute or child element; "" for character data
	attr bool
	mark string // "", "?", "&" or "*" as fields.txt explains
	kind string
}

// schema is the table of fields.txt, by type.
type schema map[string][]field

var schemas = map[Version]schema{V190: readSchema(V190), Main: readSchema(Main)}

func readSchema(v Version) schema {
	table := schema{}
	for line := range strings.Lines(fieldTable) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}

		table[words[0]] = nil
		for _, word := range words[1:] {
			table[words[0]] = append(table[words[0]], parseField(word))
		}
	}

	if v == Main {
		table["ControllerTarget"] = slices.Insert(table["ControllerTarget"], 0,
			parseField("@hotplug?:s"))
	}

	return table
}

func parseField(word string) field {
	colon := strings.LastIndex(word, ":")
	f := field{name: word[:colon], kind: word[colon+1:]}
	f.name, f.attr = strings.CutPrefix(f.name, "@")

	for _, mark := range []string{"?", "&", "*"} {
		if name, found := strings.CutSuffix(f.name, mark); found {
			f.name, f.mark = name, mark
		}
	}

	if f.name == "=" {
		f.name = ""
	}

	return f
}

// Remarshal returns what KubeVirt makes of a domain from a hook or libvirt: parsed into
// api.DomainSpec and printed again. It fails where that parsing fails: a number that is not
// decimal, another root element.
func (v Version) Remarshal(domain []byte) ([]byte, error) {
	spec, err := v.parse(domain)
	if err != nil {
		return nil, err
	}
	return spec.Bytes(), nil
}

func (v Version) parse(domain []byte) (*tree.Node, error) {
	in, err := tree.Parse(domain)
	if err != nil {
		return nil, err
	}
	if in.Name != "domain" {
		return nil, fmt.Errorf("read domain: root element is <%s>", in.Name)
	}

	return schemas[v].keep(in, "domain", "DomainSpec")
}

// keep copies the fields of one type out of an element; in is nil when the
// element is absent and KubeVirt prints it nevertheless.
func (s schema) keep(in *tree.Node, name, kind string) (*tree.Node, error) {
	fields, known := s[kind]
	if !known {
		return nil, fmt.Errorf("field table has no type %q", kind)
	}

	out := &tree.Node{Name: name}
	for _, f := range fields {
		var err error
		switch {
		case f.attr:
			value, present := in.Lookup(f.name)

			// encoding/xml does not find a tag with a prefix when it reads:
			// xmlns:qemu is lost at the first readback.
			if present = present && !strings.Contains(f.name, ":"); !present {
				value = ""
			}

			if value, present, err = f.scalar(value, present); present {
				out.Set(f.name, value)
			}

		case f.name == "":
			if in != nil {
				out.Text = in.Text
			}
			out.Text, _, err = f.scalar(out.Text, true)

		default:
			err = s.keepChildren(out, in, f)
		}

		if err != nil {
			return nil, fmt.Errorf("<%s>: %w", name, err)
		}
	}

	if kind == "KubeVirtMetadata" {
		out.Set("xmlns", "http://kubevirt.io")
	}

	return out, nil
}

func (s schema) keepChildren(out, in *tree.Node, f field) error {
	found := in.All(f.name)
	if strings.Contains(f.name, ":") {
		found = nil // qemu:commandline, lost for the same reason as xmlns:qemu
	}

	if f.mark != "*" && len(found) > 1 {
		found = found[len(found)-1:] // encoding/xml keeps the last one
	}

	if scalarKind(f.kind) {
		return keepScalars(out, found, f)
	}

	if len(found) == 0 && f.mark == "" {
		found = []*tree.Node{nil}
	}

	for _, element := range found {
		kid, err := s.keep(element, f.name, f.kind)
		if err != nil {
			return err
		}
		out.Nodes = append(out.Nodes, kid)
	}

	return nil
}

func keepScalars(out *tree.Node, found []*tree.Node, f field) error {
	text := ""
	if len(found) > 0 {
		text = found[0].Text
	}

	value, present, err := f.scalar(text, len(found) > 0)
	if present {
		out.Add(f.name).Text = value
	}

	return err
}

func scalarKind(kind string) bool {
	return kind == "s" || kind == "n" || kind == "b"
}

// scalar returns a value as encoding/xml reads and prints it, and whether it prints it at all.
func (f field) scalar(value string, present bool) (string, bool, error) {
	zero := ""
	switch f.kind {
	case "n":
		zero = "0"
		number := 0
		if trimmed := strings.TrimSpace(value); trimmed != "" {
			var err error
			if number, err = strconv.Atoi(trimmed); err != nil {
				return "", false, fmt.Errorf("field %q: %w", f.name, err)
			}
		}

		value = strconv.Itoa(number)
	case "b":
		zero = "false"
		value = strconv.FormatBool(strings.TrimSpace(value) == "true")
	}

	switch f.mark {
	case "&":
		return value, present, nil
	case "?":
		return value, value != zero, nil
	}

	return value, true, nil
}
