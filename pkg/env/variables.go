package env

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/reasons"
	"hook-sidecar/pkg/topology"
	"hook-sidecar/pkg/words"
)

// The prefixes of the environment variables that KubeVirt's device plugins set
// (kubevirt.io/api/core/v1, PCIResourcePrefix and MDevResourcePrefix).
const (
	PCIResourcePrefix  = "PCI_RESOURCE"
	MDEVResourcePrefix = "MDEV_PCI_RESOURCE"
)

// Variable is an environment variable with the devices that a device plugin
// allocated from one resource.
type Variable struct {
	Name   string              // PCI_RESOURCE_NVIDIA_COM_GA102GL_A10
	Kind   topology.Kind       // the kind of all IDs
	Suffix string              // the name after the prefix: NVIDIA_COM_GA102GL_A10
	IDs    []topology.DeviceID // in the order of the value, without duplicates; may be empty
}

// IsFor reports whether KubeVirt reads v for a resource: its suffix is the resource's name
// in upper case, with "_" for "/" and "." (KubeVirt pkg/util/util.go,
// ResourceNameToEnvVar). Two resources can share a variable.
func (v Variable) IsFor(resource string) bool {
	return v.Suffix == inVariable.Replace(strings.ToUpper(resource))
}

var inVariable = strings.NewReplacer("/", "_", ".", "_")

// ParseVariables reads the PCI_RESOURCE_* and MDEV_PCI_RESOURCE_* variables from
// NAME=VALUE entries and ignores all others. The result is sorted by name.
//
// A value is a comma-separated list of PCI addresses or UUIDs. Whitespace, empty
// elements and duplicates are ignored, and a variable without a value has no IDs.
// An invalid element becomes a warning and is skipped. When a name appears twice,
// the first entry is used, because virt-launcher sees that one (Go syscall,
// copyenv); a second one with another value is a warning.
func ParseVariables(environ []string) ([]Variable, []reasons.Finding) {
	var variables []Variable
	var problems []reasons.Finding
	problem := func(code reasons.Code, name, text string) {
		problems = append(problems, reasons.NewProblem(code, name, text))
	}

	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		kind, suffix, known := splitName(name)
		if !known {
			continue
		}

		if first, seen := values[name]; seen {
			if first != value {
				problem(reasons.CodeVariableConflict, name,
					"set twice with different values; the first is used")
			}
			continue
		}

		values[name] = value
		if suffix == "" {
			problem(reasons.CodeBadVariable, name, "the name has no resource after the prefix")
			continue
		}

		ids, bad := parseIDs(kind, value)
		if bad != "" {
			problem(reasons.CodeBadVariable, name, bad)
		}

		variables = append(variables, Variable{Name: name, Kind: kind, Suffix: suffix, IDs: ids})
	}

	slices.SortFunc(variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return variables, reasons.Sort(problems)
}

// splitName splits a variable's name into kind and suffix; false without a prefix.
func splitName(name string) (topology.Kind, string, bool) {
	if suffix, ok := strings.CutPrefix(name, PCIResourcePrefix+"_"); ok {
		return topology.KindPCI, suffix, true
	}
	suffix, ok := strings.CutPrefix(name, MDEVResourcePrefix+"_")
	return topology.KindMDEV, suffix, ok
}

// parseIDs reads the elements of a value. bad describes the first invalid element
// and counts the others; it is "" when all are valid.
func parseIDs(kind topology.Kind, value string) (ids []topology.DeviceID, bad string) {
	seen := map[topology.DeviceID]bool{}
	more := 0
	for element := range strings.SplitSeq(value, ",") {
		element = strings.TrimSpace(element)
		if element == "" {
			continue
		}

		id, err := parseID(kind, element)
		switch {
		case err != nil && bad == "":
			bad = err.Error()
		case err != nil:
			more++
		case !seen[id]:
			seen[id] = true
			ids = append(ids, id)
		}
	}

	if more > 0 {
		bad += "; " + words.Counted(more, "more invalid element")
	}

	return ids, bad
}

func parseID(kind topology.Kind, element string) (topology.DeviceID, error) {
	if kind == topology.KindMDEV {
		uuid, err := topology.ParseUUID(element)
		return topology.MediatedDevice(uuid), err
	}

	address, err := topology.ParseAddress(element)
	return topology.PCIDevice(address), err
}

// ParseEnviron reads NAME=VALUE entries, separated by NUL bytes, as in /proc/PID/environ, or
// by newlines; then empty lines and lines that begin with # are skipped. The error for an
// entry without "=" names its number.
func ParseEnviron(text string) ([]string, error) {
	separator, unit := "\n", "line"
	if strings.Contains(text, "\x00") {
		separator, unit = "\x00", "entry"
	}

	var environ []string
	number := 0
	for entry := range strings.SplitSeq(text, separator) {
		number++
		if separator == "\n" {
			entry = strings.TrimSuffix(entry, "\r")
			if strings.HasPrefix(strings.TrimSpace(entry), "#") {
				continue
			}
		}

		if strings.TrimSpace(entry) == "" {
			continue
		}

		name, _, found := strings.Cut(entry, "=")
		if !found || name == "" {
			// The entry itself is not shown: an environment holds secrets.
			return nil, fmt.Errorf("read environment: %s %d: want NAME=VALUE", unit, number)
		}

		environ = append(environ, entry)
	}

	return environ, nil
}
