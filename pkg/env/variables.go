package env

import (
	"fmt"
	"slices"
	"strings"

	"hook-sidecar/pkg/topology"
)

// The prefixes of the variables that KubeVirt's device plugins set
// (kubevirt.io/api/core/v1, PCIResourcePrefix and MDevResourcePrefix).
const (
	PCIResourcePrefix  = "PCI_RESOURCE"
	MDEVResourcePrefix = "MDEV_PCI_RESOURCE"
)

// Variable is what a device plugin allocated of one resource.
type Variable struct {
	Name   string              // PCI_RESOURCE_NVIDIA_COM_GA102GL_A10
	Kind   topology.Kind       // what the values name
	Suffix string              // the name behind the prefix: NVIDIA_COM_GA102GL_A10
	IDs    []topology.DeviceID // in the order of the value, each once; may be empty
}

// VariableName is the variable that KubeVirt looks up for a resource: upper
// case, "/" and "." become "_", nothing else changes (KubeVirt
// pkg/util/util.go, ResourceNameToEnvVar). Two resources can share a name.
func VariableName(prefix, resource string) string {
	return prefix + "_" + strings.NewReplacer("/", "_", ".", "_").Replace(strings.ToUpper(resource))
}

// ParseVariables reads the PCI_RESOURCE_* and MDEV_PCI_RESOURCE_* variables out
// of NAME=VALUE entries and ignores all others. The result is sorted by name.
//
// A value is a list of PCI addresses or UUIDs with commas between; blanks,
// empty elements and repetitions do no harm, and a variable without a value
// stays, with no IDs. An element of any other form is a Problem and left out,
// the others are used. Of a name given twice the first entry is used, because
// that is the one virt-launcher sees (Go syscall, copyenv); it is a Problem
// when the other differs.
func ParseVariables(environ []string) ([]Variable, []Problem) {
	var variables []Variable
	var problems []Problem
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		kind, suffix, ours := splitName(name)
		if !ours {
			continue
		}
		if first, seen := values[name]; seen {
			if first != value {
				problems = append(problems, Problem{
					Code: CodeVariableConflict, Source: name,
					Text: "given twice with different values, the first is used",
				})
			}
			continue
		}
		values[name] = value
		if suffix == "" {
			problems = append(problems, Problem{
				Code: CodeBadVariable, Source: name, Text: "the name holds no resource",
			})
			continue
		}
		ids, bad := parseIDs(kind, value)
		if bad != "" {
			problems = append(problems, Problem{Code: CodeBadVariable, Source: name, Text: bad})
		}
		variables = append(variables, Variable{Name: name, Kind: kind, Suffix: suffix, IDs: ids})
	}
	slices.SortFunc(variables, func(a, b Variable) int { return strings.Compare(a.Name, b.Name) })
	return variables, sortProblems(problems)
}

// splitName takes a variable's name apart; false for one that is not ours.
func splitName(name string) (topology.Kind, string, bool) {
	if suffix, ok := strings.CutPrefix(name, PCIResourcePrefix+"_"); ok {
		return topology.KindPCI, suffix, true
	}
	suffix, ok := strings.CutPrefix(name, MDEVResourcePrefix+"_")
	return topology.KindMDEV, suffix, ok
}

// parseIDs reads the elements of a value and says what is wrong with the first
// bad one and how many more there are; "" when none is.
func parseIDs(kind topology.Kind, value string) (ids []topology.DeviceID, bad string) {
	seen := map[topology.DeviceID]bool{}
	count := 0
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
			count++
		case !seen[id]:
			seen[id] = true
			ids = append(ids, id)
		}
	}
	switch count {
	case 0:
	case 1:
		bad += "; 1 more element is none either"
	default:
		bad += fmt.Sprintf("; %d more elements are none either", count)
	}
	return ids, bad
}

func parseID(kind topology.Kind, element string) (topology.DeviceID, error) {
	if kind == topology.KindMDEV {
		uuid, err := topology.ParseUUID(element)
		if err != nil {
			return topology.DeviceID{}, err
		}
		return topology.MediatedDevice(uuid), nil
	}
	address, err := topology.ParseAddress(element)
	if err != nil {
		return topology.DeviceID{}, err
	}
	return topology.PCIDevice(address), nil
}
